<?php

namespace MediaWiki\Extension\Weboid;

/**
 * Validated settings of the extension.
 *
 * @license GPL-3.0-or-later
 */
class Settings {
	/** Characters. */
	public const MIN_SECRET_LENGTH = 32;
	/** Stored levels in ascending order. */
	public const STORED_LEVELS = [ 'text', 'no-media', 'everything' ];
	private const SHOW_VALUES = [ 'always', 'dead', 'never' ];
	private const SHOWN_LEVELS = [ 'text', 'limited', 'html', 'images', 'full' ];

	/** @var mixed MediaWiki's Config (its namespace depends on the version) */
	private $config;

	public function __construct( $config ) {
		$this->config = $config;
	}

	/** Return the front's address without a trailing slash; '' if there is none. */
	public function front(): string {
		return $this->address( 'WeboidFront' );
	}

	/** Return the webhook's address without a trailing slash; '' if there is none. */
	public function webhook(): string {
		return $this->address( 'WeboidWebhook' );
	}

	/**
	 * Return the allowed origins of links, without trailing slashes.
	 *
	 * @return string[]
	 */
	public function origins(): array {
		$configured = (array)$this->config->get( 'WeboidOrigins' ) ?: [ $this->front() ];
		$origins = [];
		foreach ( $configured as $origin ) {
			if ( is_string( $origin ) && preg_match( '~^https?://[^/?#\s@\\\\]+~i', $origin, $match ) ) {
				$origins[] = strtolower( $match[0] );
			}
		}
		return $origins;
	}

	/** Return the wiki's name in the registry, dbname@farm (W24). */
	public function wiki(): string {
		$configured = trim( (string)$this->config->get( 'WeboidWiki' ) );
		if ( $configured !== '' ) {
			return $configured;
		}
		// As `weboid wiki add` does: a farm's name has no colon and at most 40 characters.
		$host = Url::host( (string)$this->config->get( 'Server' ) );
		$farm = preg_replace( '/[^A-Za-z0-9_.-]+/', '-', $host );
		$farm = trim( substr( trim( $farm, '-._' ), 0, 40 ), '-._' );
		return $this->config->get( 'DBname' ) . '@' . ( $farm ?: 'wiki' );
	}

	/**
	 * Return hosts with ports of the wiki.
	 *
	 * @return string[]
	 */
	public function ownAuthorities(): array {
		return array_filter( [
			Url::authority( (string)$this->config->get( 'Server' ) ),
			Url::authority( (string)$this->config->get( 'CanonicalServer' ) ),
		] );
	}

	/**
	 * Return hosts with ports of the front and of the copies.
	 *
	 * @return string[]
	 */
	public function frontAuthorities(): array {
		return array_filter( array_map( [ Url::class, 'authority' ], [ $this->front(), ...$this->origins() ] ) );
	}

	/** Return whether links of pages in a namespace are sent and marked. */
	public function covers( int $namespace ): bool {
		$covered = (array)$this->config->get( 'WeboidNamespaces' )
			?: (array)$this->config->get( 'ContentNamespaces' );
		return in_array( $namespace, array_map( 'intval', $covered ), true );
	}

	/** Return always (also for invalid values), dead or never. */
	public function show(): string {
		$show = $this->config->get( 'WeboidShow' );
		return in_array( $show, self::SHOW_VALUES, true ) ? $show : 'always';
	}

	/** Return the maximum time in seconds that a page view waits for the front. */
	public function timeout(): float {
		return min( 10.0, max( 0.01, (float)$this->config->get( 'WeboidTimeout' ) ) );
	}

	/** Return the maximum time in seconds that a job waits for the webhook. */
	public function webhookTimeout(): float {
		return min( 60.0, max( 0.01, (float)$this->config->get( 'WeboidWebhookTimeout' ) ) );
	}

	/** Return the seconds until the next attempt after a request without an answer. */
	public function pause(): int {
		return max( 1, (int)$this->config->get( 'WeboidPause' ) );
	}

	/**
	 * Return the shown levels that can be selected, in ascending order.
	 *
	 * @return string[]
	 */
	public function levels(): array {
		return array_values( array_intersect( self::SHOWN_LEVELS, (array)$this->config->get( 'WeboidLevels' ) ) );
	}

	/**
	 * Return the wiki's shown and stored level of all copies.
	 *
	 * @return array{shown:?string,stored:?string} null: the archive's default
	 */
	public function wikiLevels(): array {
		$shown = (string)$this->config->get( 'WeboidLevel' );
		$stored = (string)$this->config->get( 'WeboidStore' );
		return [ 'shown' => $shown === '' ? null : $shown, 'stored' => $stored === '' ? null : $stored ];
	}

	/** @return string[] */
	public function ignoredClasses(): array {
		return array_filter( (array)$this->config->get( 'WeboidIgnoreClasses' ), 'is_string' );
	}

	/** @return string[] in lower case */
	public function archiveHosts(): array {
		return array_map( 'strtolower', array_filter( (array)$this->config->get( 'WeboidArchiveHosts' ), 'is_string' ) );
	}

	/** Return the secret that signs requests to the webhook; '' if it is missing or too short. */
	public function secret(): string {
		$secret = $this->readSecret( 'WeboidSecret' );
		return strlen( $secret ) < self::MIN_SECRET_LENGTH ? '' : $secret;
	}

	/** Return a 32-bit fingerprint that shows whether both sides have the same secret; '' without one. */
	public function secretFingerprint(): string {
		$secret = $this->secret();
		return $secret === '' ? '' : substr( hash_hmac( 'sha256', 'weboid webhook secret', $secret ), 0, 8 );
	}

	/** Return the token for the front; '' if there is none. */
	public function token(): string {
		return $this->readSecret( 'WeboidToken' );
	}

	/** Return a setting's value, or the content of the file that its File variant names. */
	private function readSecret( string $name ): string {
		$file = (string)$this->config->get( $name . 'File' );
		if ( $file === '' ) {
			return trim( (string)$this->config->get( $name ) );
		}
		return is_file( $file ) && is_readable( $file ) ? trim( (string)file_get_contents( $file ) ) : '';
	}

	private function address( string $name ): string {
		$address = rtrim( trim( (string)$this->config->get( $name ) ), '/' );
		return preg_match( '~^https?://[^\s/?#@]+(/[^\s?#]*)?$~i', $address ) ? $address : '';
	}
}
