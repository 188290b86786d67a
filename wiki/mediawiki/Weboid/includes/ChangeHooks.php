<?php
/**
 * Changed links become jobs that tell them; the editor waits for nothing (A01, A25).
 *
 * MediaWiki calls this after an edit, and for each page that uses a changed template, is deleted,
 * restored or moved. The difference is the parser's own: links out of templates are in it.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

use MediaWiki\Logger\LoggerFactory;

class ChangeHooks {
	/** Bytes of links in one job: MySQL gives a job's parameters 65,535. */
	private const LARGEST = 32_000;

	/** @var Settings */
	private $settings;
	/** @var mixed MediaWiki's JobQueueGroup */
	private $jobs;
	/** @var Front */
	private $front;

	public function __construct( Settings $settings, $jobs, Front $front ) {
		$this->settings = $settings;
		$this->jobs = $jobs;
		$this->front = $front;
	}

	/** @inheritDoc */
	public function onLinksUpdateComplete( $linksUpdate, $ticket ) {
		try {
			$title = $linksUpdate->getTitle();
			if ( $this->settings->webhook() === '' || !$this->settings->covers( $title->getNamespace() ) ) {
				return;
			}
			$added = self::distinct( $linksUpdate->getAddedExternalLinks() );
			$removed = self::distinct( $linksUpdate->getRemovedExternalLinks() );
			if ( !$added && !$removed ) {
				return;
			}
			$revision = $linksUpdate->getRevisionRecord();
			$rev = $revision ? $revision->getId() : $title->getLatestRevID();
			$pageId = (int)$linksUpdate->getPageId();
			$this->push( $pageId, (int)$rev, $added, $removed );
			if ( $added ) {
				$this->front->noteSent( $pageId, $added );
			}
		} catch ( \Throwable $error ) {
			self::complain( $error );
		}
	}

	/** @inheritDoc */
	public function onPageMoveComplete( $old, $new, $user, $pageid, $redirid, $reason, $revision ) {
		try {
			// Into a namespace, or out of it: both are news.
			$covered = $this->settings->covers( $old->getNamespace() )
				|| $this->settings->covers( $new->getNamespace() );
			if ( $this->settings->webhook() !== '' && $covered ) {
				$this->push( (int)$pageid, (int)$revision->getId(), [], [] );
			}
		} catch ( \Throwable $error ) {
			self::complain( $error );
		}
	}

	/**
	 * The changes of a page, in parts that each fit into one job.
	 *
	 * @param string[] $added
	 * @param string[] $removed
	 * @param int $largest bytes
	 * @return array<int,array{added:string[],removed:string[]}> one at least
	 */
	public static function parts( array $added, array $removed, int $largest = self::LARGEST ): array {
		$parts = [ [ 'added' => [], 'removed' => [] ] ];
		$last = 0;
		$size = 0;
		foreach ( [ 'added' => $added, 'removed' => $removed ] as $kind => $urls ) {
			foreach ( $urls as $url ) {
				if ( $size && $size + strlen( $url ) > $largest ) {
					$parts[++$last] = [ 'added' => [], 'removed' => [] ];
					$size = 0;
				}
				$parts[$last][$kind][] = $url;
				$size += strlen( $url ) + 16;
			}
		}
		return $parts;
	}

	private function push( int $page, int $rev, array $added, array $removed ): void {
		$jobs = [];
		foreach ( self::parts( $added, $removed ) as $part ) {
			$jobs[] = new LinkChangesJob( null, [ 'page' => $page, 'rev' => $rev ] + $part );
		}
		$this->jobs->lazyPush( $jobs );
	}

	private static function distinct( $urls ): array {
		return array_values( array_unique( array_filter( (array)$urls, 'is_string' ) ) );
	}

	private static function complain( \Throwable $error ): void {
		LoggerFactory::getInstance( 'Weboid' )->error(
			'Changed links are not told: {reason}',
			[ 'reason' => $error->getMessage(), 'exception' => $error ]
		);
	}
}
