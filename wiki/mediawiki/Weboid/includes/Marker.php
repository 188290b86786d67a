<?php
/**
 * Puts what is known of links into HTML: classes, attributes, and a small link after each. Pure.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

class Marker {
	/** How far an archive's link of the same URL is looked for, in links. */
	private const BESIDE = 3;

	/** @var Scanner */
	private $scanner;
	/** @var array<string,true> */
	private $own;
	/** @var array<string,true> */
	private $front;
	/** @var array<string,true> */
	private $archives;

	/**
	 * @param Scanner $scanner
	 * @param string[] $own hosts, with ports, of the wiki itself
	 * @param string[] $front hosts, with ports, of the front and of the copies
	 * @param string[] $archives hosts of other archives
	 */
	public function __construct( Scanner $scanner, array $own, array $front, array $archives ) {
		$this->scanner = $scanner;
		$this->own = array_fill_keys( $own, true );
		$this->front = array_fill_keys( $front, true );
		$this->archives = array_fill_keys( $archives, true );
	}

	public static function of( Settings $settings ): self {
		return new self(
			new Scanner( $settings->ignoredClasses() ),
			$settings->ownPlaces(),
			$settings->frontPlaces(),
			$settings->archiveHosts()
		);
	}

	/** Whether a URL leads to the wiki itself. */
	public function isOwn( string $url ): bool {
		return isset( $this->own[Address::authority( $url )] );
	}

	/** Whether a URL leads to an archive, this one or another. */
	public function isArchive( string $url ): bool {
		return isset( $this->front[Address::authority( $url )] )
			|| Address::isWithin( Address::host( $url ), $this->archives );
	}

	/**
	 * The links that may get a cached one: not the wiki's own, no archive's, none that has one beside.
	 *
	 * @param string $html
	 * @return array<int,array> as Scanner::links()
	 */
	public function links( string $html ): array {
		$all = $this->scanner->links( $html );
		$archived = [];
		$cites = [];
		foreach ( $all as $place => $link ) {
			if ( $this->isArchive( $link['url'] ) ) {
				$archived[$place] = true;
				$cites[$link['cite']] = true;
			}
		}
		unset( $cites[0] );
		$kept = [];
		foreach ( $all as $place => $link ) {
			if ( !$this->isOwn( $link['url'] ) && !isset( $archived[$place] ) && !isset( $cites[$link['cite']] )
				&& !self::hasOneBeside( $all, $archived, $place )
			) {
				$kept[] = $link;
			}
		}
		return $kept;
	}

	/**
	 * The HTML with what is known of its links.
	 *
	 * @param string $html
	 * @param array<int,array> $links of that HTML
	 * @param array<string,array> $known by URL, as Answers::read() gives it
	 * @param string $show always, dead or never
	 * @param callable $words kind, URL and what is known: the visible word, and the accessible name
	 */
	public static function mark( string $html, array $links, array $known, string $show, callable $words ): string {
		$made = [];
		$done = 0;
		foreach ( $links as $link ) {
			$fact = $known[$link['url']] ?? null;
			if ( $fact === null ) {
				continue;
			}
			$classes = 'weboid-link weboid-' . $fact['group'];
			$more = '';
			if ( $link['class'] === null ) {
				$more = " class=\"$classes\"";
			} else {
				$made[] = substr( $html, $done, $link['class'] - $done ) . ' ' . $classes;
				$done = $link['class'];
			}
			$more .= self::attributes( [
				'data-originalurl' => $link['url'],
				'data-versionurl' => $fact['copy'],
				'data-versiondate' => $fact['date'],
			] );
			$made[] = substr( $html, $done, $link['end'] - $done ) . $more;
			$made[] = substr( $html, $link['end'], $link['close'] - $link['end'] );
			$done = $link['close'];
			$isShown = $show === 'always' || ( $show === 'dead' && $fact['dead'] );
			if ( $isShown && $fact['href'] !== null && $fact['kind'] !== 'none' ) {
				$made[] = self::cached( $fact, $words( $fact['kind'], $link['url'], $fact ) );
			}
		}
		$made[] = substr( $html, $done );
		return implode( '', $made );
	}

	/** Attributes with a space before each; those without a value are left out. */
	public static function attributes( array $values ): string {
		$made = '';
		foreach ( $values as $name => $value ) {
			if ( $value !== null ) {
				$made .= " $name=\"" . htmlspecialchars( $value, ENT_QUOTES | ENT_SUBSTITUTE ) . '"';
			}
		}
		return $made;
	}

	private static function cached( array $fact, array $words ): string {
		[ $word, $name ] = $words;
		$attributes = self::attributes( [
			'href' => $fact['href'],
			'title' => $fact['words'] === '' ? null : $fact['words'],
			'aria-label' => $name,
			'rel' => 'nofollow',
		] );
		return "<sup class=\"weboid-cached weboid-{$fact['kind']}\"><a$attributes>" .
			htmlspecialchars( $word, ENT_QUOTES | ENT_SUBSTITUTE ) . '</a></sup>';
	}

	/** Whether an archive's link of the same URL stands near. */
	private static function hasOneBeside( array $all, array $archived, int $place ): bool {
		$bare = rtrim( preg_replace( '~^(?:https?:)?//~i', '', $all[$place]['url'] ), '/' );
		for ( $near = $place - self::BESIDE; $near <= $place + self::BESIDE; $near++ ) {
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
