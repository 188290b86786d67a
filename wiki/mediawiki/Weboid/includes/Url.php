<?php

namespace MediaWiki\Extension\Weboid;

/**
 * Parts of URLs. Does not use MediaWiki.
 *
 * @license GPL-3.0-or-later
 */
class Url {
	/** Return the host of an http, https or protocol-relative URL in lower case; '' for any other text. */
	public static function host( string $url ): string {
		$matches = preg_match( '~^(?:https?:)?//(?:[^/?#\\\\]*@)?(\[[0-9a-f:.]+\]|[^/?#\\\\@:\s]+)~i', $url, $match );
		return $matches ? rtrim( strtolower( $match[1] ), '.' ) : '';
	}

	/** Return host and port of such a URL, without the scheme's default port; '' for any other text. */
	public static function authority( string $url ): string {
		$host = self::host( $url );
		if ( $host === '' || !preg_match( '~^[^/]*//[^/?#\\\\]*?:(\d{1,5})(?=[/?#\\\\]|$)~', $url, $match ) ) {
			return $host;
		}
		$defaults = [ 'http:' => [ 80 ], 'https' => [ 443 ], '' => [ 80, 443 ] ];
		$scheme = $url[0] === '/' ? '' : strtolower( substr( $url, 0, 5 ) );
		return in_array( (int)$match[1], $defaults[$scheme] ?? [], true ) ? $host : "$host:" . (int)$match[1];
	}

	/**
	 * Return whether a host is one of several hosts or a subdomain of one.
	 *
	 * @param string $host in lower case
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

	/** Return a URL for display: without scheme and "www.", truncated. */
	public static function shorten( string $url, int $maxLength = 60 ): string {
		$bare = preg_replace( '~^(?:https?:)?//(?:www\.)?~i', '', $url );
		$bare = rtrim( $bare, '/' );
		return mb_strlen( $bare ) > $maxLength ? mb_substr( $bare, 0, $maxLength - 1 ) . '…' : $bare;
	}
}
