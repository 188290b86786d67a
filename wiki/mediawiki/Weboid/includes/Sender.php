<?php
/**
 * One POST of JSON, or one GET, bounded in time and size.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

class Sender {
	/** Bytes of an answer; the front's to 1,000 links of usual length has a twentieth. */
	public const LARGEST = 4_000_000;
	/** Seconds: nobody is believed who wants to be left alone for longer. */
	private const LONGEST_REST = 3_600;

	/** @var mixed MediaWiki's HttpRequestFactory */
	private $requests;

	public function __construct( $requests ) {
		$this->requests = $requests;
	}

	/**
	 * Send it; redirects are not followed.
	 *
	 * @param string $url
	 * @param string $body
	 * @param array<string,string> $headers
	 * @param float $timeout seconds, for all of it
	 * @return array{0:int,1:string,2:int} the status and the body; status 0 and the reason when there is
	 *  none; for how many seconds it wants to be left alone (Retry-After), 0 when it says nothing
	 */
	public function post( string $url, string $body, array $headers, float $timeout ): array {
		$options = [ 'method' => 'POST', 'postData' => $body ];
		return $this->send( $url, $options, $headers + [ 'Content-Type' => 'application/json' ], $timeout );
	}

	/**
	 * Ask for it; redirects are not followed.
	 *
	 * @param string $url
	 * @param array<string,string> $headers
	 * @param float $timeout seconds, for all of it
	 * @return array{0:int,1:string,2:int} as of post()
	 */
	public function get( string $url, array $headers, float $timeout ): array {
		return $this->send( $url, [ 'method' => 'GET' ], $headers, $timeout );
	}

	private function send( string $url, array $options, array $headers, float $timeout ): array {
		$request = $this->requests->create( $url, $options + [
			'timeout' => $timeout,
			'connectTimeout' => $timeout,
			'followRedirects' => false,
			// A proxy on another machine cannot reach this one's loopback.
			'noProxy' => in_array( Address::host( $url ), [ '127.0.0.1', 'localhost', '[::1]' ], true ),
		], __METHOD__ );
		foreach ( $headers as $name => $value ) {
			$request->setHeader( $name, $value );
		}
		$answer = '';
		$end = microtime( true ) + $timeout;
		// Fewer bytes taken than there were ends the request.
		$request->setCallback( static function ( $stream, $bytes ) use ( &$answer, $end ) {
			if ( strlen( $answer ) + strlen( $bytes ) > self::LARGEST || microtime( true ) > $end ) {
				return 0;
			}
			$answer .= $bytes;
			return strlen( $bytes );
		} );
		$outcome = $request->execute();
		$status = (int)$request->getStatus();
		// MediaWiki calls every status of 400 and more an error; a lost connection has no such status.
		if ( !$outcome->isOK() && $status < 400 ) {
			return [ 0, self::reason( $outcome ), 0 ];
		}
		return [ $status, $answer, self::rest( (string)$request->getResponseHeader( 'Retry-After' ), time() ) ];
	}

	/**
	 * What a Retry-After says, in seconds from now: RFC 9110 has numbers and dates.
	 *
	 * @param string $said
	 * @param int $now seconds since 1970
	 * @return int 0 for none, and for what is neither
	 */
	public static function rest( string $said, int $now ): int {
		$said = trim( $said );
		// A name of a day begins a date: strtotime() reads much else as one, "now" and "5" among it.
		$moment = preg_match( '/^[A-Z][a-z]+,? /', $said ) ? (int)strtotime( $said ) : 0;
		$seconds = preg_match( '/^[0-9]{1,18}$/D', $said ) ? (int)$said : $moment - $now;
		return max( 0, min( $seconds, self::LONGEST_REST ) );
	}

	private static function reason( $outcome ): string {
		$told = [];
		foreach ( method_exists( $outcome, 'getErrors' ) ? $outcome->getErrors() : [] as $error ) {
			$name = $error['message'];
			$values = array_filter( $error['params'] ?? [], 'is_scalar' );
			$told[] = trim( ( is_string( $name ) ? $name : $name->getKey() ) . ' ' . implode( ' ', $values ) );
		}
		return implode( '; ', $told ) ?: 'no answer, or one that is too large';
	}
}
