<?php

namespace MediaWiki\Extension\Weboid;

/**
 * Scanner for external links in the HTML of MediaWiki's legacy parser and of Parsoid. Does not use MediaWiki.
 *
 * The HTML is read once and not parsed into a tree, so that all other bytes stay unchanged. Tags are read as
 * HTML's tokeniser does: quotes count only after an equals sign; comments and raw text contain no tags.
 * Scanning stops where that is impossible, e.g. at an unclosed tag, and the rest is left unchanged.
 *
 * @license GPL-3.0-or-later
 */
class Scanner {
	// The quantifiers are possessive and each match starts where the last one ended: without backtracking an
	// unclosed tag is read once, not once per byte.
	private const INSIDE = '(?:[^>=]++|=\s*+(?:"[^"]*+"|\'[^\']*+\')?+)*+>';
	private const TAG = '<(?:(/?)([a-zA-Z][^\s/>]*+)(' . self::INSIDE . ')|(!--)|([!?/])|(?![a-zA-Z]))';
	// Irrelevant tags are skipped like text: most have no attributes or are end tags.
	private const PLAIN = '<(?!/?(?:a|cite)[\s/>]|(?:%s)[\s/>])(?:[a-zA-Z][^\s/>]*+>|/[a-zA-Z][^\s/>]*+>%s)';
	private const ATTRIBUTE = '~([^\s/=>][^\s/=>]*+)(?:\s*+=\s*+(?:"([^"]*+)"|\'([^\']*+)\'|([^\s>"\'][^\s>]*+)))?~';
	private const RAW = [
		'script' => 1, 'style' => 1, 'textarea' => 1, 'title' => 1, 'xmp' => 1,
		'iframe' => 1, 'noembed' => 1, 'noframes' => 1, 'noscript' => 1, 'template' => 1,
	];
	private const VOID = [
		'area' => 1, 'base' => 1, 'br' => 1, 'col' => 1, 'embed' => 1, 'hr' => 1, 'img' => 1, 'input' => 1,
		'link' => 1, 'meta' => 1, 'source' => 1, 'track' => 1, 'wbr' => 1,
	];

	/** @var string[] classes of elements that are skipped */
	private $ignoredClasses;
	/** @var string a pattern that matches one of them in a tag's attributes; empty if there are none */
	private $ignoredPattern;

	/** @param string[] $ignoredClasses */
	public function __construct( array $ignoredClasses ) {
		$this->ignoredClasses = $ignoredClasses;
		$quoted = array_map( static function ( $class ) {
			return preg_quote( $class, '~' );
		}, $ignoredClasses );
		$this->ignoredPattern = $quoted
			? '~\bclass\s*+=\s*+["\']?(?:[^"\'>]*\s)?(?:' . implode( '|', $quoted ) . ')(?=[\s"\'>]|$)~i'
			: '';
	}

	/**
	 * Return the external links in document order.
	 *
	 * @param string $html
	 * @return array<int,array{url:string,class:int|null,end:int,close:int,cite:int}> decoded URL; offsets of
	 *  the end of the class attribute's value (null without one), of the start tag's closing bracket, and
	 *  of the first byte after the link; number of the enclosing cite element, or 0
	 */
	public function links( string $html ): array {
		if ( strpos( $html, 'external' ) === false && strpos( $html, 'mw:ExtLink' ) === false ) {
			return [];
		}
		$links = [];
		$open = null;
		$cites = [];
		$cite = 0;
		$at = 0;
		$pattern = $this->pattern( $html );
		while ( preg_match( $pattern, $html, $tag, PREG_OFFSET_CAPTURE, $at ) ) {
			$at += strlen( $tag[0][0] );
			if ( ( $tag[2][1] ?? -1 ) < 0 ) {
				if ( isset( $tag[4] ) ) {
					$at = self::afterMarkup( $html, $at, $tag[4][1] >= 0 );
				}
				if ( $at < 0 ) {
					break;
				}
				continue;
			}
			$name = strtolower( $tag[2][0] );
			if ( $tag[1][0] === '/' ) {
				if ( $name === 'a' && $open !== null ) {
					$links[] = $open + [ 'close' => $at ];
					$open = null;
				} elseif ( $name === 'cite' ) {
					array_pop( $cites );
				}
				continue;
			}
			$attributes = substr( $tag[3][0], 0, -1 );
			if ( isset( self::RAW[$name] ) ) {
				$at = self::afterElement( $html, $at, $name );
			} elseif ( $this->ignoredPattern !== '' && $attributes !== '' && !isset( self::VOID[$name] )
				&& preg_match( $this->ignoredPattern, $attributes )
			) {
				$at = self::afterElement( $html, $at, $name );
			} elseif ( $name === 'a' ) {
				$open = self::link( $attributes, $tag[3][1] );
				if ( $open !== null ) {
					$open += [ 'end' => $at - 1, 'cite' => end( $cites ) ?: 0 ];
				}
			} elseif ( $name === 'cite' ) {
				$cites[] = ++$cite;
			}
			if ( $at < 0 ) {
				break;
			}
		}
		return $links;
	}

	/** Return the pattern of the next relevant tag: only links and citations if no ignored class occurs. */
	private function pattern( string $html ): string {
		$hasIgnored = false;
		foreach ( $this->ignoredClasses as $class ) {
			$hasIgnored = $hasIgnored || stripos( $html, $class ) !== false;
		}
		$others = $hasIgnored ? '' : '|[a-zA-Z][^\s/>]*+' . self::INSIDE;
		$plain = sprintf( self::PLAIN, implode( '|', array_keys( self::RAW ) ), $others );
		return "~\\G(?:[^<]++|$plain)*+" . self::TAG . '~i';
	}

	/** Return the offset after a comment, declaration or malformed end tag; -1 if it is unclosed. */
	private static function afterMarkup( string $html, int $at, bool $isComment ): int {
		if ( !$isComment ) {
			$end = strpos( $html, '>', $at );
			return $end === false ? -1 : $end + 1;
		}
		// <!--> and <!---> are whole comments.
		if ( preg_match( '~\G-?>~', $html, $short, 0, $at ) ) {
			return $at + strlen( $short[0] );
		}
		$end = strpos( $html, '-->', $at );
		return $end === false ? -1 : $end + 3;
	}

	/** Return the offset after a skipped element; -1 if it is unclosed. */
	private static function afterElement( string $html, int $at, string $name ): int {
		$quoted = preg_quote( $name, '~' ) . '(?=[\s/>])';
		// Other elements than raw text may contain elements of the same name.
		$slash = isset( self::RAW[$name] ) && $name !== 'template' ? '/' : '/?';
		$pattern = "~\\G(?:[^<]++|<(?!$slash$quoted))*+<($slash)$quoted" . self::INSIDE . '~i';
		$depth = 1;
		while ( preg_match( $pattern, $html, $tag, 0, $at ) ) {
			$at += strlen( $tag[0] );
			$depth += $tag[1] === '/' ? -1 : 1;
			if ( $depth === 0 ) {
				return $at;
			}
		}
		return -1;
	}

	/** Return URL and class offset from a link's attributes; null if it is not external or already marked. */
	private static function link( string $attributes, int $offset ): ?array {
		if ( strpos( $attributes, 'external' ) === false && strpos( $attributes, 'mw:ExtLink' ) === false ) {
			return null;
		}
		preg_match_all( self::ATTRIBUTE, $attributes, $found, PREG_SET_ORDER | PREG_OFFSET_CAPTURE );
		$values = [];
		$classEnd = null;
		foreach ( $found as $attribute ) {
			$name = strtolower( $attribute[1][0] );
			if ( isset( $values[$name] ) ) {
				continue;
			}
			$value = end( $attribute );
			$values[$name] = count( $attribute ) > 2 ? $value[0] : '';
			if ( $name === 'class' ) {
				if ( count( $attribute ) === 2 || count( $attribute ) === 5 ) {
					return null; // neither parser writes a class without quotes
				}
				$classEnd = $offset + $value[1] + strlen( $value[0] );
			}
		}
		$classes = ' ' . strtr( $values['class'] ?? '', "\t\n\f\r", '    ' ) . ' ';
		$rels = ' ' . strtr( $values['rel'] ?? '', "\t\n\f\r", '    ' ) . ' ';
		$isExternal = strpos( $classes, ' external ' ) !== false || strpos( $rels, ' mw:ExtLink ' ) !== false;
		$isExcluded = strpos( $classes, ' extiw ' ) !== false || strpos( $classes, ' weboid-link ' ) !== false
			|| isset( $values['data-originalurl'] );
		$url = html_entity_decode( $values['href'] ?? '', ENT_QUOTES | ENT_HTML5, 'UTF-8' );
		if ( !$isExternal || $isExcluded || Url::host( $url ) === '' || preg_match( '/[\x00-\x20]/', $url ) ) {
			return null;
		}
		return [ 'url' => $url, 'class' => $classEnd ];
	}
}
