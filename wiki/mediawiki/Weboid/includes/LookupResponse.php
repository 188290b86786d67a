<?php

namespace MediaWiki\Extension\Weboid;

/**
 * Validation of the front's response to a link lookup. Does not use MediaWiki.
 *
 * The response is not trusted: an address is used only if it is at one of our own origins or in a known
 * archive, and an answer whose URL is not the requested one is dropped.
 *
 * @license GPL-3.0-or-later
 */
class LookupResponse {
	private const KINDS = [ 'copy', 'queued', 'refused', 'failed', 'none' ];
	private const GROUPS = [ 'working', 'doubtful', 'unreachable', 'unknown' ];
	private const MIN_FRESH = 1;
	private const DEFAULT_FRESH = 60;
	private const MAX_FRESH = 86_400;
	private const MAX_ADDRESS_LENGTH = 8_192;
	private const MAX_WORDS_LENGTH = 300;

	/**
	 * Return the answers by requested URL.
	 *
	 * @param string $body
	 * @param string[] $urls as requested
	 * @param string[] $origins allowed in addresses
	 * @param string[] $archives hosts of archives, also allowed
	 * @return array{fresh:int,links:array<string,array>}|null null if the response is invalid; each link
	 *  has kind, href, copy, date, group, dead, words, new, next, checked, mime and kib
	 */
	public static function parse( string $body, array $urls, array $origins, array $archives = [] ): ?array {
		$response = json_decode( $body, true, 16 );
		$links = is_array( $response ) ? $response['links'] ?? null : null;
		if ( !is_array( $links ) || count( $links ) !== count( $urls ) ) {
			return null;
		}
		$allowed = [ $origins, array_fill_keys( $archives, true ) ];
		$answers = [];
		foreach ( array_values( $urls ) as $index => $url ) {
			$link = $links[$index] ?? null;
			if ( is_array( $link ) && ( $link['url'] ?? null ) === $url ) {
				$answer = self::parseLink( $link, $allowed );
				if ( $answer ) {
					$answers[$url] = $answer;
				}
			}
		}
		$fresh = $response['fresh_s'] ?? null;
		$fresh = is_int( $fresh ) || is_float( $fresh ) ? $fresh : self::DEFAULT_FRESH;
		return [
			'fresh' => (int)min( self::MAX_FRESH, max( self::MIN_FRESH, $fresh ) ),
			'links' => $answers,
		];
	}

	private static function parseLink( array $link, array $allowed ): ?array {
		$kind = $link['answer'] ?? null;
		$group = $link['group'] ?? null;
		if ( !in_array( $kind, self::KINDS, true ) ) {
			return null;
		}
		$href = self::address( $link['href'] ?? null, $allowed );
		$copy = self::address( $link['copy'] ?? null, $allowed );
		$date = self::matching( '/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/D', $link['date'] ?? null );
		$words = $link['words'] ?? '';
		return [
			'kind' => $kind,
			'href' => $href,
			'copy' => $copy,
			'date' => ( $copy ?? $href ) !== null ? $date : null,
			'group' => in_array( $group, self::GROUPS, true ) ? $group : 'unknown',
			'dead' => ( $link['is_dead'] ?? false ) === true,
			'words' => is_string( $words ) ? mb_substr( $words, 0, self::MAX_WORDS_LENGTH ) : '',
			'new' => $kind === 'none' && ( $link['is_new'] ?? false ) === true,
			'next' => self::matching( '/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/D', $link['next_at'] ?? null ),
			'checked' => self::matching( '/^\d{4}-\d\d-\d\d$/D', $link['checked'] ?? null ),
			'mime' => self::matching( '~^[\w.+/-]{1,60}$~D', $link['mime'] ?? null ) ?? '',
			'kib' => is_int( $link['kib'] ?? null ) && $link['kib'] >= 0 ? $link['kib'] : null,
		];
	}

	private static function matching( string $pattern, $value ): ?string {
		return is_string( $value ) && preg_match( $pattern, $value ) ? $value : null;
	}

	/** Return the address if it is safe to link to, or null. */
	private static function address( $value, array $allowed ): ?string {
		[ $origins, $archives ] = $allowed;
		if ( !is_string( $value ) || strlen( $value ) > self::MAX_ADDRESS_LENGTH ) {
			return null;
		}
		// Browsers read a backslash as a slash and drop control characters; the front sends neither.
		if ( preg_match( '/[\x00-\x20\x7f\\\\]/', $value ) ) {
			return null;
		}
		foreach ( $origins as $origin ) {
			if ( strncasecmp( $value, "$origin/", strlen( $origin ) + 1 ) === 0 ) {
				return $value;
			}
		}
		// The front offers copies in other archives for dead links.
		$matches = preg_match( '~^https?://([a-z0-9.-]+)(?::\d+)?/~i', $value, $match );
		return $matches && Url::isWithin( strtolower( $match[1] ), $archives ) ? $value : null;
	}
}
