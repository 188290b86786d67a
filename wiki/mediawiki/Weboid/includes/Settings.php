<?php
/**
 * What the wiki's operator says, checked.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

class Settings {
	public const SHORTEST_SECRET = 32;
	private const SHOWN = [ 'always', 'dead', 'never' ];
	/** How much may be recorded, from the least to the most. */
	public const STORED_LEVELS = [ 'text', 'no-media', 'everything' ];
	private const LEVELS = [ 'text', 'limited', 'html', 'images', 'full' ];

	/** @var mixed the wiki's configuration (its class has another name in each version) */
	private $config;

	public function __construct( $config ) {
		$this->config = $config;
	}

	/** The front's address without a slash at the end; empty: nobody is asked. */
	public function front(): string {
		return $this->address( 'WeboidFront' );
	}

	/** The webhook's address without a slash at the end; empty: nobody is told. */
	public function webhook(): string {
		return $this->address( 'WeboidWebhook' );
	}

	/**
	 * The origins that links may lead to, each without a slash at the end.
	 *
	 * @return string[]
	 */
	public function origins(): array {
		$given = (array)$this->config->get( 'WeboidOrigins' ) ?: [ $this->front() ];
		$found = [];
		foreach ( $given as $origin ) {
			if ( is_string( $origin ) && preg_match( '~^https?://[^/?#\s@\\\\]+~i', $origin, $match ) ) {
				$found[] = strtolower( $match[0] );
			}
		}
		return $found;
	}

	/** The wiki's name, dbname@farm (W24). */
	public function wiki(): string {
		$given = trim( (string)$this->config->get( 'WeboidWiki' ) );
		if ( $given !== '' ) {
			return $given;
		}
		// As `weboid wiki add` names it: a farm's name has no colon, and 40 characters at most.
		$host = Address::host( (string)$this->config->get( 'Server' ) );
		$farm = preg_replace( '/[^A-Za-z0-9_.-]+/', '-', $host );
		$farm = trim( substr( trim( $farm, '-._' ), 0, 40 ), '-._' );
		return $this->config->get( 'DBname' ) . '@' . ( $farm ?: 'wiki' );
	}

	/**
	 * Hosts, with ports, of the wiki itself.
	 *
	 * @return string[]
	 */
	public function ownPlaces(): array {
		return array_filter( [
			Address::authority( (string)$this->config->get( 'Server' ) ),
			Address::authority( (string)$this->config->get( 'CanonicalServer' ) ),
		] );
	}

	/**
	 * Hosts, with ports, of the front and of the copies.
	 *
	 * @return string[]
	 */
	public function frontPlaces(): array {
		return array_filter( array_map( [ Address::class, 'authority' ], [ $this->front(), ...$this->origins() ] ) );
	}

	/** Whether links of pages in a namespace are told and shown. */
	public function covers( int $namespace ): bool {
		$covered = (array)$this->config->get( 'WeboidNamespaces' )
			?: (array)$this->config->get( 'ContentNamespaces' );
		return in_array( $namespace, array_map( 'intval', $covered ), true );
	}

	/** always, dead or never; always for what is none of them. */
	public function show(): string {
		$given = $this->config->get( 'WeboidShow' );
		return in_array( $given, self::SHOWN, true ) ? $given : 'always';
	}

	/** Seconds that a view waits for the front at most. */
	public function timeout(): float {
		return min( 10.0, max( 0.01, (float)$this->config->get( 'WeboidTimeout' ) ) );
	}

	/** Seconds that a job waits for the webhook at most. */
	public function webhookTimeout(): float {
		return min( 60.0, max( 0.01, (float)$this->config->get( 'WeboidWebhookTimeout' ) ) );
	}

	/** Seconds without another try after one that got no answer. */
	public function pause(): int {
		return max( 1, (int)$this->config->get( 'WeboidPause' ) );
	}

	/**
	 * The levels that are offered, from the least to the most.
	 *
	 * @return string[]
	 */
	public function levels(): array {
		return array_values( array_intersect( self::LEVELS, (array)$this->config->get( 'WeboidLevels' ) ) );
	}

	/**
	 * What LocalSettings.php says of all copies: how much is shown, how much is recorded.
	 *
	 * @return array{shown:?string,stored:?string} null: left to the archive
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

	/** @return string[] in small letters */
	public function archiveHosts(): array {
		return array_map( 'strtolower', array_filter( (array)$this->config->get( 'WeboidArchiveHosts' ), 'is_string' ) );
	}

	/** What requests to the webhook are signed with; empty: none that is long enough. */
	public function secret(): string {
		$found = $this->hidden( 'WeboidSecret' );
		return strlen( $found ) < self::SHORTEST_SECRET ? '' : $found;
	}

	/** By what two sides see that they have the same secret: 32 bits that tell nothing else; empty: none. */
	public function secretPrint(): string {
		$secret = $this->secret();
		return $secret === '' ? '' : substr( hash_hmac( 'sha256', 'weboid webhook secret', $secret ), 0, 8 );
	}

	/** What is shown to the front; empty: nothing. */
	public function token(): string {
		return $this->hidden( 'WeboidToken' );
	}

	private function hidden( string $name ): string {
		$file = (string)$this->config->get( $name . 'File' );
		if ( $file === '' ) {
			return trim( (string)$this->config->get( $name ) );
		}
		return is_file( $file ) && is_readable( $file ) ? trim( (string)file_get_contents( $file ) ) : '';
	}

	private function address( string $name ): string {
		$given = rtrim( trim( (string)$this->config->get( $name ) ), '/' );
		return preg_match( '~^https?://[^\s/?#@]+(/[^\s?#]*)?$~i', $given ) ? $given : '';
	}
}
