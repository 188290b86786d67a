<?php

namespace MediaWiki\Extension\Weboid;

/**
 * Insertion of marks into HTML: classes, attributes and cached links. Does not use MediaWiki.
 *
 * @license GPL-3.0-or-later
 */
class Marker {
	/** Maximum distance, in links, of an archive link that contains the same URL. */
	private const MAX_DISTANCE = 3;

	/** @var Scanner */
	private $scanner;
	/** @var array<string,true> */
	private $ownAuthorities;
	/** @var array<string,true> */
	private $frontAuthorities;
	/** @var array<string,true> */
	private $archiveHosts;

	/**
	 * @param Scanner $scanner
	 * @param string[] $ownAuthorities hosts with ports of the wiki
	 * @param string[] $frontAuthorities hosts with ports of the front and of the copies
	 * @param string[] $archiveHosts hosts of other archives
	 */
	public function __construct(
		Scanner $scanner, array $ownAuthorities, array $frontAuthorities, array $archiveHosts
	) {
		$this->scanner = $scanner;
		$this->ownAuthorities = array_fill_keys( $ownAuthorities, true );
		$this->frontAuthorities = array_fill_keys( $frontAuthorities, true );
		$this->archiveHosts = array_fill_keys( $archiveHosts, true );
	}

	public static function fromSettings( Settings $settings ): self {
		return new self(
			new Scanner( $settings->ignoredClasses() ),
			$settings->ownAuthorities(),
			$settings->frontAuthorities(),
			$settings->archiveHosts()
		);
	}

	/** Return whether a URL is on the wiki itself. */
	public function isOwn( string $url ): bool {
		return isset( $this->ownAuthorities[Url::authority( $url )] );
	}

	/** Return whether a URL is in an archive, ours or another. */
	public function isArchive( string $url ): bool {
		return isset( $this->frontAuthorities[Url::authority( $url )] )
			|| Url::isWithin( Url::host( $url ), $this->archiveHosts );
	}

	/**
	 * Return the links to mark: neither own links, nor archive links, nor links with an adjacent archive link.
	 *
	 * @param string $html
	 * @return array<int,array> as of Scanner::links()
	 */
	public function links( string $html ): array {
		$all = $this->scanner->links( $html );
		$archived = [];
		$archivedCites = [];
		foreach ( $all as $index => $link ) {
			if ( $this->isArchive( $link['url'] ) ) {
				$archived[$index] = true;
				$archivedCites[$link['cite']] = true;
			}
		}
		unset( $archivedCites[0] );
		$links = [];
		foreach ( $all as $index => $link ) {
			if ( !$this->isOwn( $link['url'] ) && !isset( $archived[$index] ) && !isset( $archivedCites[$link['cite']] )
				&& !self::hasAdjacentArchiveLink( $all, $archived, $index )
			) {
				$links[] = $link;
			}
		}
		return $links;
	}

	/**
	 * Return the HTML with marked links.
	 *
	 * @param string $html
	 * @param array<int,array> $links from links()
	 * @param array<string,array> $answers by URL, as of LookupResponse::parse()
	 * @param string $show always, dead or never
	 * @param callable $labels ( kind, URL, answer ) => [ visible label, accessible name ]
	 */
	public static function mark( string $html, array $links, array $answers, string $show, callable $labels ): string {
		$parts = [];
		$done = 0;
		foreach ( $links as $link ) {
			$answer = $answers[$link['url']] ?? null;
			if ( $answer === null ) {
				continue;
			}
			$classes = 'weboid-link weboid-' . $answer['group'];
			$more = '';
			if ( $link['class'] === null ) {
				$more = " class=\"$classes\"";
			} else {
				$parts[] = substr( $html, $done, $link['class'] - $done ) . ' ' . $classes;
				$done = $link['class'];
			}
			$more .= self::attributes( [
				'data-originalurl' => $link['url'],
				'data-versionurl' => $answer['copy'],
				'data-versiondate' => $answer['date'],
			] );
			$parts[] = substr( $html, $done, $link['end'] - $done ) . $more;
			$parts[] = substr( $html, $link['end'], $link['close'] - $link['end'] );
			$done = $link['close'];
			$isShown = $show === 'always' || ( $show === 'dead' && $answer['dead'] );
			if ( $isShown && $answer['href'] !== null && $answer['kind'] !== 'none' ) {
				$parts[] = self::cachedLink( $answer, $labels( $answer['kind'], $link['url'], $answer ) );
			}
		}
		$parts[] = substr( $html, $done );
		return implode( '', $parts );
	}

	/** Return attributes, each with a leading space; null values are omitted. */
	public static function attributes( array $values ): string {
		$html = '';
		foreach ( $values as $name => $value ) {
			if ( $value !== null ) {
				$html .= " $name=\"" . htmlspecialchars( $value, ENT_QUOTES | ENT_SUBSTITUTE ) . '"';
			}
		}
		return $html;
	}

	private static function cachedLink( array $answer, array $labels ): string {
		[ $label, $name ] = $labels;
		$attributes = self::attributes( [
			'href' => $answer['href'],
			'title' => $answer['words'] === '' ? null : $answer['words'],
			'aria-label' => $name,
			'rel' => 'nofollow',
		] );
		return "<sup class=\"weboid-cached weboid-{$answer['kind']}\"><a$attributes>" .
			htmlspecialchars( $label, ENT_QUOTES | ENT_SUBSTITUTE ) . '</a></sup>';
	}

	/** Return whether an archive link that contains the same URL is within MAX_DISTANCE links. */
	private static function hasAdjacentArchiveLink( array $all, array $archived, int $index ): bool {
		$bare = rtrim( preg_replace( '~^(?:https?:)?//~i', '', $all[$index]['url'] ), '/' );
		for ( $near = $index - self::MAX_DISTANCE; $near <= $index + self::MAX_DISTANCE; $near++ ) {
			if ( isset( $archived[$near] ) ) {
				$other = rtrim( $all[$near]['url'], '/' );
				if ( substr( $other, -strlen( $bare ) - 1 ) === "/$bare" ) {
					return true;
				}
			}
		}
		return false;
	}
}
