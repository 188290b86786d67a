<?php

namespace MediaWiki\Extension\Weboid;

/**
 * Lookup of the sites that a wiki excludes from link search, at the front.
 *
 * A result, also an empty one after a failure, is cached for ten minutes, so that searches rarely wait.
 *
 * @license GPL-3.0-or-later
 */
class Exclusions {
	/** Seconds. */
	private const CACHE_TTL = 600;
	private const MAX_ENTRIES = 5;
	private const MAX_ENTRY_LENGTH = 500;
	private const MAX_PATTERN_LENGTH = 2_000;

	/** @var Settings */
	private $settings;
	/** @var HttpClient */
	private $client;
	/** @var mixed MediaWiki's BagOStuff */
	private $cache;

	public function __construct( Settings $settings, HttpClient $client, $cache ) {
		$this->settings = $settings;
		$this->client = $client;
		$this->cache = $cache;
	}

	/**
	 * Return the first excluded entries that match a search pattern; none if the front does not answer.
	 *
	 * @param string $pattern as entered for the search
	 * @return string[]
	 */
	public function find( string $pattern ): array {
		$pattern = trim( $pattern );
		if ( $pattern === '' || strlen( $pattern ) > self::MAX_PATTERN_LENGTH || $this->settings->front() === '' ) {
			return [];
		}
		$key = $this->cache->makeKey( 'weboid-excluded', sha1( $this->settings->wiki() . "\n" . $pattern ) );
		$entries = $this->cache->get( $key );
		if ( !is_array( $entries ) ) {
			$entries = $this->request( $pattern );
			$this->cache->set( $key, $entries, self::CACHE_TTL );
		}
		return $entries;
	}

	/** @return string[] */
	private function request( string $pattern ): array {
		$token = $this->settings->token();
		[ $status, $body ] = $this->client->get(
			$this->settings->front() . '/links/api/excluded?' .
				http_build_query( [ 'dbname' => $this->settings->wiki(), 'pattern' => $pattern ] ),
			$token === '' ? [] : [ 'Authorization' => "Bearer $token" ],
			$this->settings->timeout()
		);
		$response = $status === 200 ? json_decode( $body, true, 8 ) : null;
		$entries = is_array( $response ) ? $response['entries'] ?? null : null;
		$valid = [];
		foreach ( is_array( $entries ) ? array_slice( $entries, 0, self::MAX_ENTRIES ) : [] as $entry ) {
			if ( is_string( $entry ) ) {
				$valid[] = mb_substr( mb_scrub( $entry ), 0, self::MAX_ENTRY_LENGTH );
			}
		}
		return $valid;
	}
}
