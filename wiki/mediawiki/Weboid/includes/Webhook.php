<?php

namespace MediaWiki\Extension\Weboid;

/**
 * Signed requests to Weboid's webhook: changed links, and levels of links.
 *
 * @license GPL-3.0-or-later
 */
class Webhook {
	private const JSON = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE;

	/** @var Settings */
	private $settings;
	/** @var HttpClient */
	private $client;
	/** @var mixed MediaWiki's BagOStuff */
	private $cache;
	/** @var mixed a PSR-3 logger */
	private $log;

	public function __construct( Settings $settings, HttpClient $client, $cache, $log ) {
		$this->settings = $settings;
		$this->client = $client;
		$this->cache = $cache;
		$this->log = $log;
	}

	/** Return whether an address and a secret are configured. */
	public function isConfigured(): bool {
		return $this->settings->webhook() !== '' && $this->settings->secret() !== '';
	}

	/**
	 * Send the changed links of pages.
	 *
	 * @param array<int,array{page_id:int,rev:int,added:string[],removed:string[]}> $pages
	 * @return string the error; '' on success, and without a webhook
	 */
	public function sendChanges( array $pages ): string {
		if ( $this->settings->webhook() === '' ) {
			return '';
		}
		$key = $this->cache->makeKey( 'weboid-webhook-down' );
		if ( $this->cache->get( $key ) ) {
			return 'the webhook did not respond to a recent request';
		}
		[ $status, $response ] = $this->post(
			'/changes',
			[ 'pages' => $pages, 'wiki_levels' => $this->settings->wikiLevels() ]
		);
		if ( $status >= 200 && $status < 300 ) {
			if ( $response !== '' ) {
				$this->log->warning( '$wgWeboidLevel or $wgWeboidStore was refused: {reason}', [
					'reason' => self::errorText( $response ),
				] );
			}
			return '';
		}
		if ( $status === 0 || $status >= 500 || $status === 429 ) {
			$this->cache->set( $key, 1, $this->settings->pause() );
		}
		$error = $status ? "the webhook returned status $status: " . self::errorText( $response ) : $response;
		$this->log->warning( 'Changed links were not sent and will be retried: {reason}', [ 'reason' => $error ] );
		return $error;
	}

	/**
	 * Set or remove the level of a link.
	 *
	 * @param string $user
	 * @param string $url
	 * @param string|null $level null to remove it
	 * @param string $reason
	 * @param bool $isStored whether it is the stored level instead of the shown level
	 * @return array{0:int,1:string} status, 0 without a response; and the error
	 */
	public function setLevel(
		string $user, string $url, ?string $level, string $reason, bool $isStored = false
	): array {
		[ $status, $response ] = $this->post(
			$isStored ? '/stored-level' : '/level',
			[ 'user' => $user, 'url' => $url, 'level' => $level, 'reason' => $reason ]
		);
		if ( $status === 200 ) {
			return [ $status, '' ];
		}
		$error = self::errorText( $response );
		$this->log->warning( 'A level was not set: {status} {reason}', [ 'status' => $status, 'reason' => $error ] );
		return [ $status, $error ];
	}

	/**
	 * Return the X-Weboid-Signature header of a request.
	 *
	 * @param string $secret
	 * @param string $path /changes, /level or /stored-level
	 * @param string $body
	 * @param int $now Unix timestamp
	 * @param string $nonce 16 to 64 hexadecimal digits, unique for each request
	 */
	public static function signature( string $secret, string $path, string $body, int $now, string $nonce ): string {
		$lines = [ 'v2', $now, $nonce, 'POST', $path, hash( 'sha256', $body ) ];
		return "t=$now,n=$nonce,v2=" . hash_hmac( 'sha256', implode( "\n", $lines ), $secret );
	}

	private function post( string $path, array $message ): array {
		$secret = $this->settings->secret();
		if ( $secret === '' ) {
			return [ 0, '$wgWeboidSecretFile cannot be read, or holds fewer than ' .
				Settings::MIN_SECRET_LENGTH . ' characters' ];
		}
		$body = json_encode( [ 'wiki' => $this->settings->wiki() ] + $message, self::JSON );
		return $this->client->post(
			$this->settings->webhook() . $path,
			$body,
			[ 'X-Weboid-Signature' => self::signature( $secret, $path, $body, time(), bin2hex( random_bytes( 16 ) ) ) ],
			$this->settings->webhookTimeout()
		);
	}

	/** Return the error in a JSON response, or the response itself, truncated. */
	private static function errorText( string $response ): string {
		$document = json_decode( $response, true, 8 );
		$text = is_array( $document ) && is_string( $document['error'] ?? null ) ? $document['error'] : $response;
		return mb_substr( mb_scrub( $text ), 0, 300 );
	}
}
