<?php
/**
 * When what was last shown beside a page's links changed, and until when nobody needs to look again.
 *
 * Browsers ask with the time of the copy that they have. Without this they would be told that the page is
 * the same for as long as nobody edits it, and a link that died would look alive to them.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

class ShownPages {
	private const KEPT = 86_400;

	/** @var mixed MediaWiki's BagOStuff */
	private $cache;
	/** @var array<string,array|null> what this request asked for already */
	private $seen = [];

	public function __construct( $cache ) {
		$this->cache = $cache;
	}

	/**
	 * What is noted of a page.
	 *
	 * @return array{shown:string,changed:int,until:int}|null seconds since 1970; null: nothing
	 */
	public function get( int $pageId, string $lang ): ?array {
		$key = $this->cache->makeKey( 'weboid-page', $pageId, $lang );
		if ( !array_key_exists( $key, $this->seen ) ) {
			$this->seen[$key] = $this->cache->get( $key ) ?: null;
		}
		return $this->seen[$key];
	}

	/** Note what is shown now, and until when that holds; nothing is written that is known already. */
	public function note( int $pageId, string $lang, string $shown, int $until ): void {
		$old = $this->get( $pageId, $lang );
		if ( $old && $old['shown'] === $shown && $old['until'] === $until ) {
			return;
		}
		// Times in HTTP have whole seconds: what is sent in this one may be of before the change.
		$changed = $old && $old['shown'] === $shown ? $old['changed'] : time() + 1;
		$new = [ 'shown' => $shown, 'changed' => $changed, 'until' => $until ];
		$key = $this->cache->makeKey( 'weboid-page', $pageId, $lang );
		$this->seen[$key] = $new;
		$this->cache->set( $key, $new, self::KEPT );
	}
}
