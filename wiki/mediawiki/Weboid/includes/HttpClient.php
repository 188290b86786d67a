<?php

namespace MediaWiki\Extension\Weboid;

/**
 * HTTP requests with a limited duration and response size. Redirects are not followed.
 *
 * @license GPL-3.0-or-later
 */
class HttpClient {
	/** Bytes; twenty times the usual size of the front's response about 1,000 links. */
	private const MAX_RESPONSE_BYTES = 4_000_000;
	/** Seconds; longer values of Retry-After are reduced to this. */
	private const MAX_RETRY_AFTER = 3_600;

	/** @var mixed MediaWiki's HttpRequestFactory */
	private $requests;

	public function __construct( $requests ) {
		$this->requests = $requests;
	}

	/**
	 * Send JSON with POST.
	 *
	 * @param string $url
	 * @param string $body
	 * @param array<string,string> $headers
	 * @param float $timeout seconds for the whole exchange
	 * @return array{0:int,1:string,2:int} status and body, or 0 and the error; Retry-After in seconds, 0 if absent
	 */
	public function post( string $url, string $body, array $headers, float $timeout ): array {
		$options = [ 'method' => 'POST', 'postData' => $body ];
		return $this->send( $url, $options, $headers + [ 'Content-Type' => 'application/json' ], $timeout );
	}

	/**
	 * Send a GET request.
	 *
	 * @param string $url
	 * @param array<string,string> $headers
	 * @param float $timeout seconds for the whole exchange
	 * @return array{0:int,1:string,2:int} as post()
	 */
	public function get( string $url, array $headers, float $timeout ): array {
		return $this->send( $url, [ 'method' => 'GET' ], $headers, $timeout );
	}

	private function send( string $url, array $options, array $headers, float $timeout ): array {
		$request = $this->requests->create( $url, $options + [
			'timeout' => $timeout,
			'connectTimeout' => $timeout,
			'followRedirects' => false,
			// A proxy on another machine cannot reach this machine's loopback.
			'noProxy' => in_array( Url::host( $url ), [ '127.0.0.1', 'localhost', '[::1]' ], true ),
		], __METHOD__ );
		foreach ( $headers as $name => $value ) {
			$request->setHeader( $name, $value );
		}
		$body = '';
		$deadline = microtime( true ) + $timeout;
		// The request is aborted if the callback accepts fewer bytes than it was given.
		$request->setCallback( static function ( $stream, $bytes ) use ( &$body, $deadline ) {
			if ( strlen( $body ) + strlen( $bytes ) > self::MAX_RESPONSE_BYTES || microtime( true ) > $deadline ) {
				return 0;
			}
			$body .= $bytes;
			return strlen( $bytes );
		} );
		$outcome = $request->execute();
		$status = (int)$request->getStatus();
		// MediaWiki reports statuses from 400 as errors, too; a lost connection has no such status.
		if ( !$outcome->isOK() && $status < 400 ) {
			return [ 0, self::errorText( $outcome ), 0 ];
		}
		return [ $status, $body, self::parseRetryAfter( (string)$request->getResponseHeader( 'Retry-After' ), time() ) ];
	}

	/**
	 * Return the seconds that a Retry-After header asks to wait (RFC 9110 10.2.3: seconds or a date).
	 *
	 * @param string $header
	 * @param int $now Unix timestamp
	 * @return int 0 if the header is empty or invalid
	 */
	public static function parseRetryAfter( string $header, int $now ): int {
		$header = trim( $header );
		// strtotime() also accepts "now" and "5": require the name of a day.
		$moment = preg_match( '/^[A-Z][a-z]+,? /', $header ) ? (int)strtotime( $header ) : 0;
		$seconds = preg_match( '/^[0-9]{1,18}$/D', $header ) ? (int)$header : $moment - $now;
		return max( 0, min( $seconds, self::MAX_RETRY_AFTER ) );
	}

	private static function errorText( $outcome ): string {
		$texts = [];
		foreach ( method_exists( $outcome, 'getErrors' ) ? $outcome->getErrors() : [] as $error ) {
			$message = $error['message'];
			$parameters = array_filter( $error['params'] ?? [], 'is_scalar' );
			$texts[] = trim( ( is_string( $message ) ? $message : $message->getKey() ) . ' ' . implode( ' ', $parameters ) );
		}
		return implode( '; ', $texts ) ?: 'no response, or a response that is too large';
	}
}
