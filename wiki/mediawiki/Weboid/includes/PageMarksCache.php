<?php

namespace MediaWiki\Extension\Weboid;

/**
 * Cache of when the marks on a page last changed, and until when they are fresh.
 *
 * Browsers revalidate a page by its modification time. Without this cache a page would count as unmodified
 * until its next edit, and a link that has died since would still be shown as working.
 *
 * @license GPL-3.0-or-later
 */
class PageMarksCache {
	/** Seconds. */
	private const CACHE_TTL = 86_400;

	/** @var mixed MediaWiki's BagOStuff */
	private $cache;
	/** @var array<string,array|null> entries already read in this request */
	private $entries = [];

	public function __construct( $cache ) {
		$this->cache = $cache;
	}

	/**
	 * Return the entry of a page, or null.
	 *
	 * @return array{shown:string,changed:int,until:int}|null digest of the marks; Unix timestamps
	 */
	public function get( int $pageId, string $lang ): ?array {
		$key = $this->cache->makeKey( 'weboid-page', $pageId, $lang );
		if ( !array_key_exists( $key, $this->entries ) ) {
			$this->entries[$key] = $this->cache->get( $key ) ?: null;
		}
		return $this->entries[$key];
	}

	/** Store the digest of a page's marks and their expiry, unless both are unchanged. */
	public function set( int $pageId, string $lang, string $shown, int $until ): void {
		$old = $this->get( $pageId, $lang );
		if ( $old && $old['shown'] === $shown && $old['until'] === $until ) {
			return;
		}
		// HTTP dates are in whole seconds: a page sent earlier in this second may have the old marks.
		$changed = $old && $old['shown'] === $shown ? $old['changed'] : time() + 1;
		$new = [ 'shown' => $shown, 'changed' => $changed, 'until' => $until ];
		$key = $this->cache->makeKey( 'weboid-page', $pageId, $lang );
		$this->entries[$key] = $new;
		$this->cache->set( $key, $new, self::CACHE_TTL );
	}
}
