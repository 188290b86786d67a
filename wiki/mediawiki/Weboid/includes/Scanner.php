<?php
/**
 * Finds the external links in HTML, of MediaWiki's old parser and of Parsoid, by one look at each byte. Pure.
 *
 * Nothing is parsed into a tree and written again: what is not a link stays as it is, byte for byte. Tags
 * are read as HTML's tokeniser does (quotes count after an equals sign only; comments and raw text hold
 * no tags). Where that is not possible, e.g. at a tag that never ends, looking ends, and what follows is
 * left alone.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

class Scanner {
	// Each pattern begins where the last one ended, and takes what it read for good: a tag that does not end
	// is found out once, and not once for each of its bytes.
	private const INSIDE = '(?:[^>=]++|=\s*+(?:"[^"]*+"|\'[^\']*+\')?+)*+>';
	private const TAG = '<(?:(/?)([a-zA-Z][^\s/>]*+)(' . self::INSIDE . ')|(!--)|([!?/])|(?![a-zA-Z]))';
	// Tags that say nothing are passed over with the text: most have no attributes, or end an element.
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

	/** @var string[] classes in whose elements nobody looks */
	private $classes;
	/** @var string a pattern that finds one of them in a tag's attributes; empty: there are none */
	private $ignored;

	/**
	 * @param string[] $ignoredClasses
	 */
	public function __construct( array $ignoredClasses ) {
		$this->classes = $ignoredClasses;
		$quoted = array_map( static function ( $class ) {
			return preg_quote( $class, '~' );
		}, $ignoredClasses );
		$this->ignored = $quoted
			? '~\bclass\s*+=\s*+["\']?(?:[^"\'>]*\s)?(?:' . implode( '|', $quoted ) . ')(?=[\s"\'>]|$)~i'
			: '';
	}

	/**
	 * The links, in their order.
	 *
	 * @param string $html
	 * @return array<int,array{url:string,class:int|null,end:int,close:int,cite:int}> the URL as it stands
	 *  there, decoded; where more classes go (null: there is no such attribute), where the first tag's
	 *  bracket is, and where what comes after the link begins; the number of the citation (cite element)
	 *  it is in, 0 for none
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
			} elseif ( $this->ignored !== '' && $attributes !== '' && !isset( self::VOID[$name] )
				&& preg_match( $this->ignored, $attributes )
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

	/** What finds the next tag that matters: where no class is ignored, that is a link's or a citation's. */
	private function pattern( string $html ): string {
		$matter = false;
		foreach ( $this->classes as $class ) {
			$matter = $matter || stripos( $html, $class ) !== false;
		}
		$others = $matter ? '' : '|[a-zA-Z][^\s/>]*+' . self::INSIDE;
		$plain = sprintf( self::PLAIN, implode( '|', array_keys( self::RAW ) ), $others );
		return "~\\G(?:[^<]++|$plain)*+" . self::TAG . '~i';
	}

	/** Where a comment, a declaration or a broken end tag is over; negative when it never is. */
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

	/** Where an element is over whose content nobody looks at; negative when it never is. */
	private static function afterElement( string $html, int $at, string $name ): int {
		$quoted = preg_quote( $name, '~' ) . '(?=[\s/>])';
		// Raw text has no elements inside; others may have more of their name.
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

	/** What a link's attributes tell; null when it is no external link, or one that was seen to already. */
	private static function link( string $attributes, int $offset ): ?array {
		if ( strpos( $attributes, 'external' ) === false && strpos( $attributes, 'mw:ExtLink' ) === false ) {
			return null;
		}
		preg_match_all( self::ATTRIBUTE, $attributes, $found, PREG_SET_ORDER | PREG_OFFSET_CAPTURE );
		$values = [];
		$classEnd = null;
		foreach ( $found as $one ) {
			$name = strtolower( $one[1][0] );
			if ( isset( $values[$name] ) ) {
				continue;
			}
			$value = end( $one );
			$values[$name] = count( $one ) > 2 ? $value[0] : '';
			if ( $name === 'class' ) {
				if ( count( $one ) === 2 || count( $one ) === 5 ) {
					return null; // a class without quotes is nobody's that we know
				}
				$classEnd = $offset + $value[1] + strlen( $value[0] );
			}
		}
		$classes = ' ' . strtr( $values['class'] ?? '', "\t\n\f\r", '    ' ) . ' ';
		$rels = ' ' . strtr( $values['rel'] ?? '', "\t\n\f\r", '    ' ) . ' ';
		$isExternal = strpos( $classes, ' external ' ) !== false || strpos( $rels, ' mw:ExtLink ' ) !== false;
		$isOther = strpos( $classes, ' extiw ' ) !== false || strpos( $classes, ' weboid-link ' ) !== false
			|| isset( $values['data-originalurl'] );
		$url = html_entity_decode( $values['href'] ?? '', ENT_QUOTES | ENT_HTML5, 'UTF-8' );
		if ( !$isExternal || $isOther || Address::host( $url ) === '' || preg_match( '/[\x00-\x20]/', $url ) ) {
			return null;
		}
		return [ 'url' => $url, 'class' => $classEnd ];
	}
}
