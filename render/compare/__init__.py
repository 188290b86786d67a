"""What a visitor saw held against what a copy shows: pictures, texts, parts. Pure, on Pillow and NumPy."""
