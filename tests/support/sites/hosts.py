"""The names of the test web: ordinary-looking hosts that exist only on loopback."""

DOMAIN = "test-web.example"

WIKI = f"wiki.{DOMAIN}"  # a real MediaWiki
DOCS = f"docs.{DOMAIN}"  # Debian's manuals
SPA = f"spa.{DOMAIN}"  # applications built by JavaScript
KINDS = f"kinds.{DOMAIN}"  # pages of every kind of library and generator
GALLERY = f"gallery.{DOMAIN}"  # pages of 91 small subresources
RULES = f"rules.{DOMAIN}"  # one page a rule of HTTP, or a breach of one
OTHER = f"other.{DOMAIN}"  # the same rule pages under a second name, for what crosses hosts
ACID = f"acid.{DOMAIN}"  # one page a way in which a page can be made
APART = "apart.example"  # the acid pages again, under a name of another site
NOROBOTS = f"norobots.{DOMAIN}"  # robots.txt forbids everything
SICKROBOTS = f"sickrobots.{DOMAIN}"  # robots.txt answers 500
SELFSIGNED = f"selfsigned.{DOMAIN}"  # TLS: a certificate that nobody signed
EXPIRED = f"expired.{DOMAIN}"  # TLS: a certificate of yesterday
WRONGNAME = f"wrongname.{DOMAIN}"  # TLS: a certificate for another name
REFUSED = f"refused.{DOMAIN}"  # nobody listens
SILENT = f"silent.{DOMAIN}"  # accepts connections, never says a word
NOWHERE = f"nowhere.{DOMAIN}"  # resolves to nothing

BAD_TLS = (SELFSIGNED, EXPIRED, WRONGNAME)
GOOD = (WIKI, DOCS, SPA, KINDS, GALLERY, RULES, OTHER, ACID, APART, NOROBOTS, SICKROBOTS)
SERVED = (*GOOD, *BAD_TLS)
