-- Predefined farms (W61), and a view in the form of MediaWiki's table (X08).
--
-- Two faults of W61's expressions are corrected: the bar of `\bmediawiki|wik(...)\.org$` reaches to both
-- ends, so that it matches every host with "mediawiki" in it; and without a boundary before `wik`
-- "antiwikipedia.org" would be one of the farm's.
--
-- The view has the links that pages have now as rows of MediaWiki's external links table:
--
--     el_id | el_wiki    | el_from | el_to_domain_index            | el_to_path
--     17    | dewiki@WMF | 4711    | https://org.creativecommons. | /licenses/by-sa/3.0
--
-- el_wiki is an addition, since one registry has several wikis. el_id is unique within a wiki, and stays
-- as long as the link: it consists of the page's number and, in the low 34 bits, the URL's. A port that
-- is not the scheme's own follows the index, as in MediaWiki.

INSERT INTO link_farms (id, name, address, internal) VALUES (0, 'wmflabs', '', '(?:^|\.)beta\.wmflabs\.org$');

INSERT INTO link_farms (id, name, address, internal) VALUES (1, 'WMF', '', '(?:^|\.)(?:mediawiki|wik(?:i(?:books|data|functions|media|news|pedia|quote|source|species|versity|voyage)|tionary))\.org$');

CREATE VIEW link_externallinks AS
SELECT p.page_id * 17179869184 + r.url_id AS el_id,
       w.dbname || '@' || f.name AS el_wiki,
       p.page_id AS el_from,
       CASE u.scheme WHEN 0 THEN 'http://' ELSE 'https://' END || h.domain_index
           || CASE u.port WHEN 0 THEN '' ELSE ':' || CAST(u.port AS VARCHAR(5)) END
           AS el_to_domain_index,
       u.path AS el_to_path
FROM link_refs r
JOIN link_pages p ON p.id = r.page
JOIN link_wikis w ON w.id = p.wiki_id
JOIN link_farms f ON f.id = w.farm_id
JOIN link_urls u ON u.id = r.url_id
JOIN link_hosts h ON h.id = u.host_id
WHERE r.gone_day IS NULL;
