<?php
/**
 * Addresses as far as links need them. Pure.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

class Address {
	/** The host of an http, https or protocol-relative URL in small letters; empty for any other text. */
	public static function host( string $url ): string {
		$found = preg_match( '~^(?:https?:)?//(?:[^/?#\\\\]*@)?(\[[0-9a-f:.]+\]|[^/?#\\\\@:\s]+)~i', $url, $match );
		return $found ? rtrim( strtolower( $match[1] ), '.' ) : '';
	}

	/**
	 * The host and the port of such a URL, as it is written with the port that its scheme has anyway left out;
	 * empty for any other text.
	 */
	public static function authority( string $url ): string {
		$host = self::host( $url );
		if ( $host === '' || !preg_match( '~^[^/]*//[^/?#\\\\]*?:(\d{1,5})(?=[/?#\\\\]|$)~', $url, $match ) ) {
			return $host;
		}
		$usual = [ 'http:' => [ 80 ], 'https' => [ 443 ], '' => [ 80, 443 ] ];
		$scheme = $url[0] === '/' ? '' : strtolower( substr( $url, 0, 5 ) );
		return in_array( (int)$match[1], $usual[$scheme] ?? [], true ) ? $host : "$host:" . (int)$match[1];
	}

	/**
	 * Whether a host is one of some, or below one.
	 *
	 * @param string $host in small letters
	 * @param array<string,true> $hosts
	 */
	public static function isWithin( string $host, array $hosts ): bool {
		while ( $host !== '' ) {
			if ( isset( $hosts[$host] ) ) {
				return true;
			}
			$dot = strpos( $host, '.' );
			$host = $dot === false ? '' : substr( $host, $dot + 1 );
		}
		return false;
	}

	/** A URL as people call it: without its scheme, and not longer than they read. */
	public static function short( string $url, int $longest = 60 ): string {
		$bare = preg_replace( '~^(?:https?:)?//(?:www\.)?~i', '', $url );
		$bare = rtrim( $bare, '/' );
		return mb_strlen( $bare ) > $longest ? mb_substr( $bare, 0, $longest - 1 ) . '…' : $bare;
	}
}
