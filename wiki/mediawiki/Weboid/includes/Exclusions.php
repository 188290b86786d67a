<?php
/**
 * What the front says that a search for links does not find, because the wiki keeps it out of the table.
 *
 * An answer is kept for ten minutes, and so is none: a search waits for half a second at most, and not again.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

class Exclusions {
	private const KEPT = 600;
	private const LONGEST = 500;
	private const MOST = 5;

	/** @var Settings */
	private $settings;
	/** @var Sender */
	private $sender;
	/** @var mixed MediaWiki's BagOStuff */
	private $cache;

	public function __construct( Settings $settings, Sender $sender, $cache ) {
		$this->settings = $settings;
		$this->sender = $sender;
		$this->cache = $cache;
	}

	/**
	 * The entries that keep links out which the pattern means, the first five; none when nobody says so.
	 *
	 * @param string $pattern as somebody searches for it
	 * @return string[]
	 */
	public function of( string $pattern ): array {
		$pattern = trim( $pattern );
		if ( $pattern === '' || strlen( $pattern ) > 2_000 || $this->settings->front() === '' ) {
			return [];
		}
		$key = $this->cache->makeKey( 'weboid-excluded', sha1( $this->settings->wiki() . "\n" . $pattern ) );
		$kept = $this->cache->get( $key );
		if ( !is_array( $kept ) ) {
			$kept = $this->ask( $pattern );
			$this->cache->set( $key, $kept, self::KEPT );
		}
		return $kept;
	}

	/** @return string[] */
	private function ask( string $pattern ): array {
		$token = $this->settings->token();
		[ $status, $body ] = $this->sender->get(
			$this->settings->front() . '/links/api/excluded?' .
				http_build_query( [ 'dbname' => $this->settings->wiki(), 'pattern' => $pattern ] ),
			$token === '' ? [] : [ 'Authorization' => "Bearer $token" ],
			$this->settings->timeout()
		);
		$said = $status === 200 ? json_decode( $body, true, 8 ) : null;
		$entries = is_array( $said ) ? $said['entries'] ?? null : null;
		$found = [];
		foreach ( is_array( $entries ) ? array_slice( $entries, 0, self::MOST ) : [] as $entry ) {
			if ( is_string( $entry ) ) {
				$found[] = mb_substr( mb_scrub( $entry ), 0, self::LONGEST );
			}
		}
		return $found;
	}
}
