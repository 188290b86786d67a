"""Bot that repairs citations whose links are confirmed dead; off unless enabled."""
