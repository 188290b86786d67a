<?php

namespace MediaWiki\Extension\Weboid;

use MediaWiki\Logger\LoggerFactory;

/**
 * Hooks that queue a job for each page whose external links changed, so that the editor does not wait (A01, A25).
 *
 * LinksUpdateComplete runs after an edit and for each page that uses a changed template, is deleted,
 * restored or moved. The changed links are the parser's, so links that come from templates are included.
 *
 * @license GPL-3.0-or-later
 */
class ChangeHooks {
	/** Bytes of URLs in one job; MySQL limits a job's parameters to 65,535. */
	private const MAX_JOB_BYTES = 32_000;

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
			$added = self::uniqueUrls( $linksUpdate->getAddedExternalLinks() );
			$removed = self::uniqueUrls( $linksUpdate->getRemovedExternalLinks() );
			if ( !$added && !$removed ) {
				return;
			}
			$revision = $linksUpdate->getRevisionRecord();
			$rev = $revision ? $revision->getId() : $title->getLatestRevID();
			$pageId = (int)$linksUpdate->getPageId();
			$this->pushJobs( $pageId, (int)$rev, $added, $removed );
			if ( $added ) {
				$this->front->recordSent( $pageId, $added );
			}
		} catch ( \Throwable $error ) {
			self::logError( $error );
		}
	}

	/** @inheritDoc */
	public function onPageMoveComplete( $old, $new, $user, $pageid, $redirid, $reason, $revision ) {
		try {
			// Moves into and out of a covered namespace are both sent.
			$isCovered = $this->settings->covers( $old->getNamespace() )
				|| $this->settings->covers( $new->getNamespace() );
			if ( $this->settings->webhook() !== '' && $isCovered ) {
				$this->pushJobs( (int)$pageid, (int)$revision->getId(), [], [] );
			}
		} catch ( \Throwable $error ) {
			self::logError( $error );
		}
	}

	/**
	 * Split a page's changes into parts that each fit into one job.
	 *
	 * @param string[] $added
	 * @param string[] $removed
	 * @param int $maxBytes
	 * @return array<int,array{added:string[],removed:string[]}> at least one part
	 */
	public static function splitChanges( array $added, array $removed, int $maxBytes = self::MAX_JOB_BYTES ): array {
		$parts = [ [ 'added' => [], 'removed' => [] ] ];
		$last = 0;
		$size = 0;
		foreach ( [ 'added' => $added, 'removed' => $removed ] as $kind => $urls ) {
			foreach ( $urls as $url ) {
				if ( $size && $size + strlen( $url ) > $maxBytes ) {
					$parts[++$last] = [ 'added' => [], 'removed' => [] ];
					$size = 0;
				}
				$parts[$last][$kind][] = $url;
				$size += strlen( $url ) + 16;
			}
		}
		return $parts;
	}

	private function pushJobs( int $pageId, int $rev, array $added, array $removed ): void {
		$jobs = [];
		foreach ( self::splitChanges( $added, $removed ) as $part ) {
			$jobs[] = new LinkChangesJob( null, [ 'page' => $pageId, 'rev' => $rev ] + $part );
		}
		$this->jobs->lazyPush( $jobs );
	}

	private static function uniqueUrls( $urls ): array {
		return array_values( array_unique( array_filter( (array)$urls, 'is_string' ) ) );
	}

	private static function logError( \Throwable $error ): void {
		LoggerFactory::getInstance( 'Weboid' )->error(
			'Could not queue a job for changed links: {reason}',
			[ 'reason' => $error->getMessage(), 'exception' => $error ]
		);
	}
}
