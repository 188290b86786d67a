<?php

namespace MediaWiki\Extension\Weboid;

/**
 * Lookup of a page's links at the archive's front, with a cache that keeps page views fast.
 *
 * Responses are cached by the links that they are about: an edit that changes no link needs no request, and
 * a change in a template takes effect at once. When a response has expired, one view requests it again and
 * waits for up to half a second; on a timeout the expired response is shown. While the front is unavailable
 * no view waits and no marks are shown, until a deferred request (sent after a page view) succeeds. While the
 * front refuses with 429 the last known answers are shown, also for links of a page that has changed since.
 *
 * @license GPL-3.0-or-later
 */
class Front {
	/** The front's limit for one request. */
	private const MAX_URLS = 1_000;
	/** Bytes of URLs in one request, below common limits of servers. */
	private const MAX_URL_BYTES = 200_000;
	/** Requests for one page. */
	private const MAX_REQUESTS = 5;
	/** Cached responses listed per page. */
	private const MAX_REMEMBERED = 10;
	/** Seconds that responses stay in the cache, to be shown while the front cannot answer. */
	private const CACHE_TTL = 86_400;
	/** Seconds: timeout of deferred requests, and of the lock that prevents duplicate requests. */
	private const BACKGROUND_TIMEOUT = 5;
	/** Seconds for which a sent link is shown as queued before the front confirms it. */
	private const SENT_TTL = 60;
	/** Seconds: the front declares a shorter freshness only while links are queued or new. */
	private const MIN_SETTLED_FRESH = 60;
	/** Seconds before a rejected request is repeated. */
	private const REJECTED_TTL = 600;
	private const JSON = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE;

	/** @var Settings */
	private $settings;
	/** @var HttpClient */
	private $client;
	/** @var mixed MediaWiki's BagOStuff */
	private $cache;
	/** @var mixed a PSR-3 logger */
	private $log;
	/** @var array<string,true> keys of requests deferred until the page was sent */
	private $deferred = [];

	public function __construct( Settings $settings, HttpClient $client, $cache, $log ) {
		$this->settings = $settings;
		$this->client = $client;
		$this->cache = $cache;
		$this->log = $log;
	}

	/**
	 * Return what is known about a page's URLs, from the cache or from the front.
	 *
	 * @param int $pageId
	 * @param string[] $urls as written in the page
	 * @param string $lang language of the descriptions
	 * @param int $changed Unix timestamp of the page's last change: the webhook receives its links a moment
	 *  later, so links that the front does not know yet are shown as queued
	 * @return array{links:array<string,array>,until:int,waiting:bool,soon:bool,down:bool,busy:bool,missing:bool}
	 *  answers by URL; their expiry (Unix timestamp); whether a link is queued or unknown (waiting), and
	 *  whether a state will change within seconds (soon); whether the front is unavailable (down: links is empty, see
	 *  recentAnswers()) or has refused with 429 (busy); whether answers are missing because of an error
	 */
	public function lookup( int $pageId, array $urls, string $lang, int $changed = 0 ): array {
		$batches = [];
		foreach ( self::batches( array_values( array_unique( $urls ) ) ) as $batch ) {
			$batches[$this->responseKey( $batch, $lang )] = $batch;
		}
		$downKey = $this->cache->makeKey( 'weboid-front-down' );
		$busyKey = $this->cache->makeKey( 'weboid-front-busy' );
		$sentKey = $this->sentKey( $pageId );
		$cached = $this->cache->getMulti( [ $downKey, $busyKey, $sentKey, ...array_keys( $batches ) ] );
		$now = time();
		$sentAt = (array)( $cached[$sentKey] ?? [] );
		$lastSent = $sentAt ? max( $sentAt ) : 0;
		$isDown = isset( $cached[$downKey] );
		$isBusy = isset( $cached[$busyKey] );
		// While the front is down, one view per pause tries again.
		$mayRequest = !$isBusy && ( !$isDown || $now - (int)$cached[$downKey] >= $this->settings->pause()
			&& $this->cache->add( $this->cache->makeKey( 'weboid-front-retry' ), 1, self::BACKGROUND_TIMEOUT ) );
		$mayWait = $mayRequest && !$isDown; // only for the first batch
		$responses = [];
		foreach ( $batches as $key => $batch ) {
			$response = $cached[$key] ?? null;
			// A response from before links were sent to the webhook counts as expired.
			$isExpired = $response === null || $response['until'] <= $now || ( $response['at'] ?? 0 ) < $lastSent;
			if ( $isExpired && $mayWait ) {
				$new = $this->request( $key, $pageId, $batch, $lang, $this->settings->timeout() );
				$isDown = $new === null && $this->cache->get( $downKey ) !== false;
				$isBusy = $new === null && $this->cache->get( $busyKey ) !== false;
				$mayRequest = !$isBusy && !$isDown;
				$response = $new ?? $response;
			} elseif ( $mayRequest && ( $isExpired || $isDown ) ) {
				$this->deferRequest( $key, $pageId, $batch, $lang );
				$mayRequest = !$isDown;
			}
			$mayWait = false;
			$responses[] = $response;
		}
		$result = self::merge( $responses, $isDown, $now, $this->settings->pause() );
		if ( $isBusy && !$isDown && $result['missing'] ) {
			$result['links'] += $this->recentAnswers( $pageId, $urls, $lang );
		}
		if ( $changed > $now - self::SENT_TTL && $this->settings->webhook() !== '' ) {
			$sentAt += array_fill_keys( $urls, $changed );
		}
		if ( $sentAt ) {
			$result['links'] = $this->showSentAsQueued( $result['links'], $sentAt, $now );
		}
		return [ 'busy' => $isBusy && !$isDown ] + $result;
	}

	/**
	 * Record links that are being sent to the webhook, to show them as queued before the front knows them.
	 *
	 * @param int $pageId
	 * @param string[] $urls
	 */
	public function recordSent( int $pageId, array $urls ): void {
		if ( $this->settings->front() === '' ) {
			return;
		}
		$key = $this->sentKey( $pageId );
		$now = time();
		$earlier = array_filter( (array)( $this->cache->get( $key ) ?: [] ), static function ( $at ) use ( $now ) {
			return $at > $now - self::SENT_TTL;
		} );
		$all = array_fill_keys( array_slice( $urls, 0, self::MAX_URLS ), $now ) + $earlier;
		$this->cache->set( $key, array_slice( $all, 0, self::MAX_URLS, true ), self::SENT_TTL );
	}

	/** Return answers in which recently sent links that are new to the front are queued. */
	private function showSentAsQueued( array $links, array $sentAt, int $now ): array {
		foreach ( $links as $url => $answer ) {
			if ( !empty( $answer['new'] ) && ( $sentAt[$url] ?? 0 ) > $now - self::SENT_TTL ) {
				$links[$url] = [ 'kind' => 'queued', 'href' => $this->latestHref( $url ), 'new' => false ] + $answer;
			}
		}
		return $links;
	}

	/** Return the front's address that shows a URL's latest copy, or why there is none. */
	private function latestHref( string $url ): ?string {
		$origin = $this->settings->origins()[0] ?? null;
		$absolute = ( $url[0] === '/' ? 'https:' : '' ) . explode( '#', $url, 2 )[0];
		$escaped = preg_replace_callback( '~[^!$&\'()*+,./:;=?@\w%\[\]\~-]~', static function ( $match ) {
			return rawurlencode( $match[0] );
		}, $absolute );
		return $origin === null || $escaped === null ? null : "$origin/latest/$escaped";
	}

	/**
	 * Return the front's last answers about URLs of this page, up to a day old.
	 *
	 * @param int $pageId
	 * @param string[] $urls as written in the page
	 * @param string $lang language of the descriptions
	 * @return array<string,array>
	 */
	public function recentAnswers( int $pageId, array $urls, string $lang ): array {
		$keys = $this->cache->get( $this->pageKey( $pageId, $lang ) ) ?: [];
		$responses = $keys ? $this->cache->getMulti( $keys ) : [];
		$links = [];
		foreach ( $keys as $key ) { // latest first
			$links += $responses[$key]['links'] ?? [];
		}
		return array_intersect_key( $links, array_flip( $urls ) );
	}

	/**
	 * Split URLs into batches within the front's limits; URLs beyond the last batch are dropped.
	 *
	 * @param string[] $urls
	 * @return string[][]
	 */
	public static function batches( array $urls ): array {
		$batches = [];
		$bytes = 0;
		foreach ( $urls as $url ) {
			$last = count( $batches ) - 1;
			if ( $last < 0 || count( $batches[$last] ) >= self::MAX_URLS || $bytes + strlen( $url ) > self::MAX_URL_BYTES ) {
				if ( ++$last >= self::MAX_REQUESTS ) {
					break;
				}
				$bytes = 0;
			}
			$batches[$last][] = $url;
			$bytes += strlen( $url );
		}
		return $batches;
	}

	private static function merge( array $responses, bool $isDown, int $now, int $pause ): array {
		if ( $isDown ) {
			return [ 'links' => [], 'until' => $now + $pause, 'waiting' => true, 'soon' => false,
				'down' => true, 'missing' => true ];
		}
		$links = [];
		$until = $now + self::CACHE_TTL;
		$isWaiting = false;
		$isSoon = false;
		$isMissing = false;
		foreach ( $responses as $response ) {
			$isSoon = $isSoon || !empty( $response['soon'] );
			$isMissing = $isMissing || $response === null || !empty( $response['rejected'] );
			$links += $response['links'] ?? [];
			$until = min( $until, $response['until'] ?? $now );
			$isWaiting = $isWaiting || $response === null || !empty( $response['soon'] );
		}
		foreach ( $links as $answer ) {
			$isWaiting = $isWaiting || $answer['kind'] === 'queued';
		}
		return [
			'links' => $links,
			'until' => $until,
			'waiting' => $isWaiting,
			'soon' => $isSoon,
			'down' => false,
			'missing' => $isMissing,
		];
	}

	private function sentKey( int $pageId ): string {
		return $this->cache->makeKey( 'weboid-sent', $this->settings->wiki(), $pageId );
	}

	private function pageKey( int $pageId, string $lang ): string {
		return $this->cache->makeKey( 'weboid-recent-answers', $this->settings->wiki(), $pageId, $lang );
	}

	private function responseKey( array $urls, string $lang ): string {
		$parameters = [ $this->settings->front(), $this->settings->wiki(), $this->settings->origins(), $lang, $urls ];
		return $this->cache->makeKey( 'weboid-answers', sha1( json_encode( $parameters, self::JSON ) ) );
	}

	/** Request answers and cache them; return null on failure, or while another process requests the same. */
	private function request( string $key, int $pageId, array $urls, string $lang, float $timeout ): ?array {
		$lock = $this->cache->makeKey( 'weboid-lookup-lock', sha1( $key ) );
		if ( !$this->cache->add( $lock, 1, self::BACKGROUND_TIMEOUT ) ) {
			return null;
		}
		$query = [ 'wiki' => $this->settings->wiki(), 'page_id' => $pageId, 'urls' => $urls, 'lang' => $lang ];
		$token = $this->settings->token();
		[ $status, $body, $retryAfter ] = $this->client->post(
			$this->settings->front() . '/links/api/cached',
			json_encode( $query, self::JSON ),
			$token === '' ? [] : [ 'Authorization' => "Bearer $token" ],
			$timeout
		);
		$now = time();
		$parsed = $status === 200
			? LookupResponse::parse( $body, $urls, $this->settings->origins(), $this->settings->archiveHosts() )
			: null;
		if ( $parsed === null ) {
			return $this->handleFailure( $key, $status, $status === 0 ? $body : "status $status", $retryAfter );
		}
		$response = [
			'at' => $now,
			'until' => $now + $parsed['fresh'],
			'soon' => $parsed['fresh'] < self::MIN_SETTLED_FRESH,
			'links' => $parsed['links'],
		];
		$this->cache->set( $key, $response, max( self::CACHE_TTL, $parsed['fresh'] ) );
		$this->cache->delete( $lock );
		$pageKey = $this->pageKey( $pageId, $lang );
		$earlier = $this->cache->get( $pageKey ) ?: [];
		if ( ( $earlier[0] ?? null ) !== $key ) {
			$all = array_unique( [ $key, ...$earlier ] );
			$this->cache->set( $pageKey, array_slice( $all, 0, self::MAX_REMEMBERED ), self::CACHE_TTL );
		}
		$downKey = $this->cache->makeKey( 'weboid-front-down' );
		if ( $this->cache->get( $downKey ) !== false ) {
			$this->cache->delete( $downKey );
		}
		return $response;
	}

	/** Cache a failure, of this request or of the front, for at least as long as Retry-After says. */
	private function handleFailure( string $key, int $status, string $reason, int $retryAfter ): ?array {
		$pause = $this->settings->pause();
		if ( $status === 429 ) {
			$this->log->warning( 'The front refuses with 429 (too many requests); to exempt this wiki, set ' .
				'--links-internal of "weboid serve" or "weboid wiki watch"' );
			$this->cache->set( $this->cache->makeKey( 'weboid-front-busy' ), 1, max( $retryAfter, $pause, 1 ) );
			return null;
		}
		// These statuses may be caused by this page's links: other pages are still looked up.
		if ( $status === 500 || ( $status >= 400 && $status < 500 && $status !== 408 ) ) {
			$this->log->warning( 'The front rejects the lookup of these links: {reason}', [ 'reason' => $reason ] );
			$response = [ 'until' => time() + self::REJECTED_TTL, 'links' => [], 'rejected' => true ];
			$this->cache->set( $key, $response, self::REJECTED_TTL );
			return $response;
		}
		$this->log->warning( 'The front does not respond: {reason}', [ 'reason' => $reason ] );
		// Views retry a pause after this time.
		$failedAt = time() + max( 0, $retryAfter - $pause );
		$this->cache->set( $this->cache->makeKey( 'weboid-front-down' ), $failedAt, self::CACHE_TTL );
		return null;
	}

	/** Request answers after the page was sent. */
	private function deferRequest( string $key, int $pageId, array $urls, string $lang ): void {
		if ( isset( $this->deferred[$key] ) ) {
			return;
		}
		$this->deferred[$key] = true;
		// The class has a namespace since MediaWiki 1.42.
		$updates = class_exists( \MediaWiki\Deferred\DeferredUpdates::class )
			? \MediaWiki\Deferred\DeferredUpdates::class
			: \DeferredUpdates::class;
		$deferredAt = time();
		$updates::addCallableUpdate( function () use ( $key, $pageId, $urls, $lang, $deferredAt ) {
			unset( $this->deferred[$key] );
			$cached = $this->cache->get( $key ) ?: [];
			$isFresh = ( $cached['at'] ?? 0 ) >= $deferredAt && $cached['until'] > time();
			if ( $isFresh && $this->cache->get( $this->cache->makeKey( 'weboid-front-down' ) ) === false ) {
				return; // requested by another view meanwhile
			}
			$this->request( $key, $pageId, $urls, $lang, max( self::BACKGROUND_TIMEOUT, $this->settings->timeout() ) );
		}, constant( "$updates::POSTSEND" ) );
	}
}
