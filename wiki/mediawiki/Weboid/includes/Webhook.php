<?php
/**
 * Rings for weboid: signed requests that say where to look, and what level a link shall have.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

class Webhook {
	private const JSON = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE;

	/** @var Settings */
	private $settings;
	/** @var Sender */
	private $sender;
	/** @var mixed MediaWiki's BagOStuff */
	private $cache;
	/** @var mixed a PSR-3 logger */
	private $log;

	public function __construct( Settings $settings, Sender $sender, $cache, $log ) {
		$this->settings = $settings;
		$this->sender = $sender;
		$this->cache = $cache;
		$this->log = $log;
	}

	/** Whether there is one, and a secret to sign with. */
	public function isThere(): bool {
		return $this->settings->webhook() !== '' && $this->settings->secret() !== '';
	}

	/**
	 * Tell which links of pages changed.
	 *
	 * @param array<int,array{page_id:int,rev:int,added:string[],removed:string[]}> $pages
	 * @return string why it was not heard; empty when it was, or when nobody is there to hear it
	 */
	public function tellChanges( array $pages ): string {
		if ( $this->settings->webhook() === '' ) {
			return '';
		}
		$key = $this->cache->makeKey( 'weboid-webhook-silent' );
		if ( $this->cache->get( $key ) ) {
			return 'the webhook gave no answer a moment ago';
		}
		[ $status, $answer ] = $this->ring(
			'/changes',
			[ 'pages' => $pages, 'wiki_levels' => $this->settings->wikiLevels() ]
		);
		if ( $status >= 200 && $status < 300 ) {
			if ( $answer !== '' ) {
				$this->log->warning( '$wgWeboidLevel or $wgWeboidStore does not hold: {reason}', [
					'reason' => self::said( $answer ),
				] );
			}
			return '';
		}
		if ( $status === 0 || $status >= 500 || $status === 429 ) {
			$this->cache->set( $key, 1, $this->settings->pause() );
		}
		$trouble = $status ? "the webhook answered $status: " . self::said( $answer ) : $answer;
		$this->log->warning( 'Changed links are not told yet: {reason}', [ 'reason' => $trouble ] );
		return $trouble;
	}

	/**
	 * Ask for a level of a link, or for none of its own.
	 *
	 * @param string $user
	 * @param string $url
	 * @param string|null $level null: none of its own
	 * @param string $reason
	 * @param bool $isStored whether it is about what is recorded, not about what is shown
	 * @return array{0:int,1:string} the status, 0 without an answer; and what was said instead of yes
	 */
	public function setLevel(
		string $user, string $url, ?string $level, string $reason, bool $isStored = false
	): array {
		[ $status, $answer ] = $this->ring(
			$isStored ? '/stored-level' : '/level',
			[ 'user' => $user, 'url' => $url, 'level' => $level, 'reason' => $reason ]
		);
		if ( $status !== 200 ) {
			$this->log->warning( 'A level was not set: {status} {reason}', [
				'status' => $status,
				'reason' => self::said( $answer ),
			] );
		}
		return [ $status, $status === 200 ? '' : self::said( $answer ) ];
	}

	/**
	 * The header that proves who sends a request, and when.
	 *
	 * @param string $secret
	 * @param string $path of the webhook's: /changes, /level or /stored-level
	 * @param string $body
	 * @param int $now seconds since 1970
	 * @param string $nonce 16 to 64 hexadecimal digits that were not used before: a request counts once
	 */
	public static function signature( string $secret, string $path, string $body, int $now, string $nonce ): string {
		$lines = [ 'v2', $now, $nonce, 'POST', $path, hash( 'sha256', $body ) ];
		return "t=$now,n=$nonce,v2=" . hash_hmac( 'sha256', implode( "\n", $lines ), $secret );
	}

	private function ring( string $path, array $message ): array {
		$secret = $this->settings->secret();
		if ( $secret === '' ) {
			return [ 0, '$wgWeboidSecretFile cannot be read, or holds fewer than ' .
				Settings::SHORTEST_SECRET . ' characters' ];
		}
		$body = json_encode( [ 'wiki' => $this->settings->wiki() ] + $message, self::JSON );
		return $this->sender->post(
			$this->settings->webhook() . $path,
			$body,
			[ 'X-Weboid-Signature' => self::signature( $secret, $path, $body, time(), bin2hex( random_bytes( 16 ) ) ) ],
			$this->settings->webhookTimeout()
		);
	}

	private static function said( string $answer ): string {
		$found = json_decode( $answer, true, 8 );
		$said = is_array( $found ) && is_string( $found['error'] ?? null ) ? $found['error'] : $answer;
		return mb_substr( mb_scrub( $said ), 0, 300 );
	}
}
