<?php
/**
 * What the archive's front knows of a page's links, without a view that waits for it.
 *
 * Answers are kept by the links they are about, so that an edit that changes no link asks nothing again,
 * and one in a template is seen at once. An answer past its time is asked for again before the page is sent,
 * for half a second at most, by one view for all; without an answer in that time the old one is shown. As
 * soon as the front gives no answer nobody waits for it and nothing of it is shown, until it answers a
 * question asked behind a reader's back. One that has been asked too often is there: what it said before
 * is shown, also of links whose page has changed since.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

class Front {
	/** The front takes so many URLs at once; and no more bytes than any server takes. */
	private const MOST_URLS = 1_000;
	private const MOST_BYTES = 200_000;
	private const MOST_QUESTIONS = 5;
	/** So many of a page's last questions are remembered. */
	private const REMEMBERED = 10;
	/** Seconds that an answer is kept, to be shown while a newer one is asked for. */
	private const KEPT = 86_400;
	/** Seconds for an answer that no reader waits for, and until the same is asked again. */
	private const PATIENCE = 5;
	/** Seconds for which a link that was sent is called queued, though the front has not heard of it yet. */
	private const SENT = 60;
	/** Seconds: for less the front gives only what is under way, or so new that nobody has queued it. */
	private const SETTLED = 60;
	/** Seconds before a question is asked again that the front does not take. */
	private const REFUSED = 600;
	private const JSON = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE;

	/** @var Settings */
	private $settings;
	/** @var Sender */
	private $sender;
	/** @var mixed MediaWiki's BagOStuff */
	private $cache;
	/** @var mixed a PSR-3 logger */
	private $log;
	/** @var array<string,true> questions that are asked when this page was sent */
	private $later = [];

	public function __construct( Settings $settings, Sender $sender, $cache, $log ) {
		$this->settings = $settings;
		$this->sender = $sender;
		$this->cache = $cache;
		$this->log = $log;
	}

	/**
	 * What is known of URLs.
	 *
	 * @param int $pageId
	 * @param string[] $urls as they stand in the page
	 * @param string $lang of the words
	 * @param int $changed when the page last changed, in seconds since 1970: the webhook is told of its links
	 *  a moment later, so those that the front has not heard of are queued
	 * @return array{links:array<string,array>,until:int,waiting:bool,soon:bool,down:bool,busy:bool,missing:bool}
	 *  what is known; when that is old (seconds since 1970); whether anything is under way or not known yet,
	 *  and whether that changes within seconds;
	 *  whether the front is away; whether it has been asked too often; whether there are links of which it
	 *  has not been asked with success, of which it may know much. Nothing is known of one that is away:
	 *  `remembered` tells what it said.
	 */
	public function ask( int $pageId, array $urls, string $lang, int $changed = 0 ): array {
		$questions = [];
		foreach ( self::portions( array_values( array_unique( $urls ) ) ) as $portion ) {
			$questions[$this->keyOf( $portion, $lang )] = $portion;
		}
		$silent = $this->cache->makeKey( 'weboid-front-silent' );
		$busy = $this->cache->makeKey( 'weboid-front-busy' );
		$sent = $this->keyOfSent( $pageId );
		$kept = $this->cache->getMulti( [ $silent, $busy, $sent, ...array_keys( $questions ) ] );
		$now = time();
		$sentAt = (array)( $kept[$sent] ?? [] );
		$lastSent = $sentAt ? max( $sentAt ) : 0;
		$isDown = isset( $kept[$silent] );
		// While it is away one view after each pause tries again, for all.
		$isBusy = isset( $kept[$busy] );
		$mayAsk = !$isBusy && ( !$isDown || $now - (int)$kept[$silent] >= $this->settings->pause()
			&& $this->cache->add( $this->cache->makeKey( 'weboid-front-trying' ), 1, self::PATIENCE ) );
		$isFirst = $mayAsk && !$isDown;
		$found = [];
		foreach ( $questions as $key => $portion ) {
			$old = $kept[$key] ?? null;
			// What was sent since then is news to the front.
			$isOld = $old === null || $old['until'] <= $now || ( $old['at'] ?? 0 ) < $lastSent;
			if ( $isOld && $isFirst ) {
				$new = $this->askNow( $key, $pageId, $portion, $lang, $this->settings->timeout() );
				$isDown = $new === null && $this->cache->get( $silent ) !== false;
				$isBusy = $new === null && $this->cache->get( $busy ) !== false;
				$mayAsk = !$isBusy && !$isDown;
				$old = $new ?? $old;
			} elseif ( $mayAsk && ( $isOld || $isDown ) ) {
				$this->askLater( $key, $pageId, $portion, $lang );
				$mayAsk = !$isDown;
			}
			$isFirst = false;
			$found[] = $old;
		}
		$answer = self::together( $found, $isDown, $now, $this->settings->pause() );
		if ( $isBusy && !$isDown && $answer['missing'] ) {
			$answer['links'] += $this->remembered( $pageId, $urls, $lang );
		}
		if ( $changed > $now - self::SENT && $this->settings->webhook() !== '' ) {
			$sentAt += array_fill_keys( $urls, $changed );
		}
		if ( $sentAt ) {
			$answer['links'] = $this->withSent( $answer['links'], $sentAt, $now );
		}
		return [ 'busy' => $isBusy && !$isDown ] + $answer;
	}

	/**
	 * Note links of a page that the webhook is being told of: they are queued, though the front has not
	 * heard of them yet.
	 *
	 * @param int $pageId
	 * @param string[] $urls
	 */
	public function noteSent( int $pageId, array $urls ): void {
		if ( $this->settings->front() === '' ) {
			return;
		}
		$key = $this->keyOfSent( $pageId );
		$now = time();
		$before = array_filter( (array)( $this->cache->get( $key ) ?: [] ), static function ( $at ) use ( $now ) {
			return $at > $now - self::SENT;
		} );
		$all = array_fill_keys( array_slice( $urls, 0, self::MOST_URLS ), $now ) + $before;
		$this->cache->set( $key, array_slice( $all, 0, self::MOST_URLS, true ), self::SENT );
	}

	/** What is known of links, with those queued that were sent and that the front has not heard of. */
	private function withSent( array $links, array $sent, int $now ): array {
		foreach ( $links as $url => $fact ) {
			if ( !empty( $fact['new'] ) && ( $sent[$url] ?? 0 ) > $now - self::SENT ) {
				$links[$url] = [ 'kind' => 'queued', 'href' => $this->newest( $url ), 'new' => false ] + $fact;
			}
		}
		return $links;
	}

	/** The page of the front that shows the newest copy, or says why there is none. */
	private function newest( string $url ): ?string {
		$origin = $this->settings->origins()[0] ?? null;
		$whole = ( $url[0] === '/' ? 'https:' : '' ) . explode( '#', $url, 2 )[0];
		$escaped = preg_replace_callback( '~[^!$&\'()*+,./:;=?@\w%\[\]\~-]~', static function ( $match ) {
			return rawurlencode( $match[0] );
		}, $whole );
		return $origin === null || $escaped === null ? null : "$origin/latest/$escaped";
	}

	private function keyOfSent( int $pageId ): string {
		return $this->cache->makeKey( 'weboid-sent', $this->settings->wiki(), $pageId );
	}

	/**
	 * What the front said of URLs when it was last asked about this page, within a day.
	 *
	 * @param int $pageId
	 * @param string[] $urls as they stand in the page
	 * @param string $lang of the words
	 * @return array<string,array>
	 */
	public function remembered( int $pageId, array $urls, string $lang ): array {
		$keys = $this->cache->get( $this->keyOfPage( $pageId, $lang ) ) ?: [];
		$answers = $keys ? $this->cache->getMulti( $keys ) : [];
		$links = [];
		foreach ( $keys as $key ) { // the latest first
			$links += $answers[$key]['links'] ?? [];
		}
		return array_intersect_key( $links, array_flip( $urls ) );
	}

	/**
	 * The links in portions that the front takes; what is beyond the last is not asked for.
	 *
	 * @param string[] $urls
	 * @return string[][]
	 */
	public static function portions( array $urls ): array {
		$portions = [];
		$bytes = 0;
		foreach ( $urls as $url ) {
			$last = count( $portions ) - 1;
			if ( $last < 0 || count( $portions[$last] ) >= self::MOST_URLS || $bytes + strlen( $url ) > self::MOST_BYTES ) {
				if ( ++$last >= self::MOST_QUESTIONS ) {
					break;
				}
				$bytes = 0;
			}
			$portions[$last][] = $url;
			$bytes += strlen( $url );
		}
		return $portions;
	}

	private static function together( array $found, bool $isDown, int $now, int $pause ): array {
		if ( $isDown ) {
			return [ 'links' => [], 'until' => $now + $pause, 'waiting' => true, 'soon' => false,
				'down' => true, 'missing' => true ];
		}
		$links = [];
		$until = $now + self::KEPT;
		$isWaiting = false;
		$isSoon = false;
		$isMissing = false;
		foreach ( $found as $one ) {
			$isSoon = $isSoon || !empty( $one['soon'] );
			$isMissing = $isMissing || $one === null || !empty( $one['refused'] );
			$links += $one['links'] ?? [];
			$until = min( $until, $one['until'] ?? $now );
			$isWaiting = $isWaiting || $one === null || !empty( $one['soon'] );
		}
		foreach ( $links as $fact ) {
			$isWaiting = $isWaiting || $fact['kind'] === 'queued';
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

	private function keyOfPage( int $pageId, string $lang ): string {
		return $this->cache->makeKey( 'weboid-questions', $this->settings->wiki(), $pageId, $lang );
	}

	private function keyOf( array $urls, string $lang ): string {
		$about = [ $this->settings->front(), $this->settings->wiki(), $this->settings->origins(), $lang, $urls ];
		return $this->cache->makeKey( 'weboid-answers', sha1( json_encode( $about, self::JSON ) ) );
	}

	/** Ask, unless somebody else is asking the same; null without an answer. */
	private function askNow( string $key, int $pageId, array $urls, string $lang, float $timeout ): ?array {
		$asking = $this->cache->makeKey( 'weboid-asking', sha1( $key ) );
		if ( !$this->cache->add( $asking, 1, self::PATIENCE ) ) {
			return null;
		}
		$question = [ 'wiki' => $this->settings->wiki(), 'page_id' => $pageId, 'urls' => $urls, 'lang' => $lang ];
		$token = $this->settings->token();
		[ $status, $body, $rest ] = $this->sender->post(
			$this->settings->front() . '/links/api/cached',
			json_encode( $question, self::JSON ),
			$token === '' ? [] : [ 'Authorization' => "Bearer $token" ],
			$timeout
		);
		$now = time();
		$said = $status === 200
			? Answers::read( $body, $urls, $this->settings->origins(), $this->settings->archiveHosts() )
			: null;
		if ( $said === null ) {
			return $this->withoutAnswer( $key, $status, $status === 0 ? $body : "status $status", $rest );
		}
		$answer = [
			'at' => $now,
			'until' => $now + $said['fresh'],
			'soon' => $said['fresh'] < self::SETTLED,
			'links' => $said['links'],
		];
		$this->cache->set( $key, $answer, max( self::KEPT, $said['fresh'] ) );
		$this->cache->delete( $asking );
		$page = $this->keyOfPage( $pageId, $lang );
		$before = $this->cache->get( $page ) ?: [];
		if ( ( $before[0] ?? null ) !== $key ) {
			$all = array_unique( [ $key, ...$before ] );
			$this->cache->set( $page, array_slice( $all, 0, self::REMEMBERED ), self::KEPT );
		}
		$silent = $this->cache->makeKey( 'weboid-front-silent' );
		if ( $this->cache->get( $silent ) !== false ) {
			$this->cache->delete( $silent );
		}
		return $answer;
	}

	/** Remember that there was no answer: to this question, or to any, for at least as long as was asked for. */
	private function withoutAnswer( string $key, int $status, string $reason, int $rest ): ?array {
		$pause = $this->settings->pause();
		if ( $status === 429 ) {
			// What is known is shown; more is asked for later.
			$this->log->warning( 'The front was asked too often: see --links-internal of weboid serve and weboid wiki watch' );
			$this->cache->set( $this->cache->makeKey( 'weboid-front-busy' ), 1, max( $rest, $pause, 1 ) );
			return null;
		}
		// What one page's links make of the front is no reason to be without it on all others.
		if ( $status === 500 || ( $status >= 400 && $status < 500 && $status !== 408 ) ) {
			$this->log->warning( 'The front takes no question about these links: {reason}', [ 'reason' => $reason ] );
			$answer = [ 'until' => time() + self::REFUSED, 'links' => [], 'refused' => true ];
			$this->cache->set( $key, $answer, self::REFUSED );
			return $answer;
		}
		$this->log->warning( 'The front gives no answer: {reason}', [ 'reason' => $reason ] );
		$this->cache->set( $this->cache->makeKey( 'weboid-front-silent' ), time() + max( 0, $rest - $pause ), self::KEPT );
		return null;
	}

	/** Ask when the reader has the page. */
	private function askLater( string $key, int $pageId, array $urls, string $lang ): void {
		if ( isset( $this->later[$key] ) ) {
			return;
		}
		$this->later[$key] = true;
		// The class was given a namespace in MediaWiki 1.42.
		$updates = class_exists( \MediaWiki\Deferred\DeferredUpdates::class )
			? \MediaWiki\Deferred\DeferredUpdates::class
			: \DeferredUpdates::class;
		$begun = time();
		$updates::addCallableUpdate( function () use ( $key, $pageId, $urls, $lang, $begun ) {
			unset( $this->later[$key] );
			$kept = $this->cache->get( $key ) ?: [];
			$isAsked = ( $kept['at'] ?? 0 ) >= $begun && $kept['until'] > time();
			if ( $isAsked && $this->cache->get( $this->cache->makeKey( 'weboid-front-silent' ) ) === false ) {
				return; // by another view meanwhile
			}
			$this->askNow( $key, $pageId, $urls, $lang, max( self::PATIENCE, $this->settings->timeout() ) );
		}, constant( "$updates::POSTSEND" ) );
	}
}
