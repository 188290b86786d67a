<?php
/**
 * What the front said of links, checked word for word. Pure.
 *
 * Whatever answers may be broken, or somebody else: an address that is neither at one of our own origins
 * nor in an archive that is known is none, and an answer that does not belong to its question is left out.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

class Answers {
	private const KINDS = [ 'copy', 'queued', 'refused', 'failed', 'none' ];
	private const GROUPS = [ 'working', 'doubtful', 'unreachable', 'unknown' ];
	private const SHORTEST_FRESH = 1;
	private const USUAL_FRESH = 60;
	private const LONGEST_FRESH = 86_400;
	private const LONGEST_ADDRESS = 8_192;
	private const LONGEST_WORDS = 300;

	/**
	 * The answers to a question, by the URL that was asked for.
	 *
	 * @param string $body
	 * @param string[] $urls as they were asked for
	 * @param string[] $origins that links may lead to
	 * @param string[] $archives hosts of archives, which they may lead to as well
	 * @return array{fresh:int,links:array<string,array>}|null null when it is no answer at all; of a link
	 *  there are kind, href, copy, date, group, dead, words, new, next, checked, mime and kib
	 */
	public static function read( string $body, array $urls, array $origins, array $archives = [] ): ?array {
		$said = json_decode( $body, true, 16 );
		$links = is_array( $said ) ? $said['links'] ?? null : null;
		if ( !is_array( $links ) || count( $links ) !== count( $urls ) ) {
			return null;
		}
		$known = [ $origins, array_fill_keys( $archives, true ) ];
		$found = [];
		foreach ( array_values( $urls ) as $place => $url ) {
			$one = $links[$place] ?? null;
			if ( is_array( $one ) && ( $one['url'] ?? null ) === $url ) {
				$fact = self::one( $one, $known );
				if ( $fact ) {
					$found[$url] = $fact;
				}
			}
		}
		$fresh = $said['fresh_s'] ?? null;
		$fresh = is_int( $fresh ) || is_float( $fresh ) ? $fresh : self::USUAL_FRESH;
		return [
			'fresh' => (int)min( self::LONGEST_FRESH, max( self::SHORTEST_FRESH, $fresh ) ),
			'links' => $found,
		];
	}

	private static function one( array $said, array $known ): ?array {
		$kind = $said['answer'] ?? null;
		$group = $said['group'] ?? null;
		if ( !in_array( $kind, self::KINDS, true ) ) {
			return null;
		}
		$href = self::address( $said['href'] ?? null, $known );
		$copy = self::address( $said['copy'] ?? null, $known );
		$date = $said['date'] ?? null;
		$isDate = is_string( $date ) && preg_match( '/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/D', $date );
		$words = $said['words'] ?? '';
		return [
			'kind' => $kind,
			'href' => $href,
			'copy' => $copy,
			'date' => $isDate && ( $copy ?? $href ) !== null ? $date : null,
			'group' => in_array( $group, self::GROUPS, true ) ? $group : 'unknown',
			'dead' => ( $said['is_dead'] ?? false ) === true,
			'words' => is_string( $words ) ? mb_substr( $words, 0, self::LONGEST_WORDS ) : '',
			'new' => $kind === 'none' && ( $said['is_new'] ?? false ) === true,
			'next' => self::matching( '/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/D', $said['next_at'] ?? null ),
			'checked' => self::matching( '/^\d{4}-\d\d-\d\d$/D', $said['checked'] ?? null ),
			'mime' => self::matching( '~^[\w.+/-]{1,60}$~D', $said['mime'] ?? null ) ?? '',
			'kib' => is_int( $said['kib'] ?? null ) && $said['kib'] >= 0 ? $said['kib'] : null,
		];
	}

	private static function matching( string $pattern, $said ): ?string {
		return is_string( $said ) && preg_match( $pattern, $said ) ? $said : null;
	}

	private static function address( $said, array $known ): ?string {
		[ $origins, $archives ] = $known;
		if ( !is_string( $said ) || strlen( $said ) > self::LONGEST_ADDRESS ) {
			return null;
		}
		// A browser takes a backslash for a slash, and drops controls: neither is in an address of ours.
		if ( preg_match( '/[\x00-\x20\x7f\\\\]/', $said ) ) {
			return null;
		}
		foreach ( $origins as $origin ) {
			if ( strncasecmp( $said, "$origin/", strlen( $origin ) + 1 ) === 0 ) {
				return $said;
			}
		}
		// Copies in other archives are offered for dead links.
		$isPlain = preg_match( '~^https?://([a-z0-9.-]+)(?::\d+)?/~i', $said, $match );
		return $isPlain && Address::isWithin( strtolower( $match[1] ), $archives ) ? $said : null;
	}
}
