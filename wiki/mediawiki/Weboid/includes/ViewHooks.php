<?php

namespace MediaWiki\Extension\Weboid;

use MediaWiki\Logger\LoggerFactory;

/**
 * Hooks that add marks and a toolbox link to page views.
 *
 * OutputPageBeforeHTML runs after the parser cache, for the legacy parser and for Parsoid, and only for page
 * views: API responses and the parser cache contain no marks. (Since MediaWiki 1.45 the output of
 * ParserOutputPostCacheTransform may be cached.)
 *
 * @license GPL-3.0-or-later
 */
class ViewHooks {
	private const LABELS = [
		'copy' => 'weboid-cached',
		'dead' => 'weboid-cached-dead',
		'queued' => 'weboid-queued',
		'waiting' => 'weboid-waiting',
		'refused' => 'weboid-not-archived',
		'failed' => 'weboid-not-archived',
	];

	/** @var Settings */
	private $settings;
	/** @var Front */
	private $front;
	/** @var PageMarksCache */
	private $pageMarks;
	/** @var mixed MediaWiki's SpecialPageFactory */
	private $specialPages;

	public function __construct( Settings $settings, Front $front, PageMarksCache $pageMarks, $specialPages ) {
		$this->settings = $settings;
		$this->front = $front;
		$this->pageMarks = $pageMarks;
		$this->specialPages = $specialPages;
	}

	/** @inheritDoc */
	public function onOutputPageBeforeHTML( $out, &$text ) {
		try {
			$title = $out->getTitle();
			if ( $this->isCovered( $title ) && $out->isArticle() ) {
				$text = $this->markedHtml( $out, $title->getArticleID(), $text );
			}
		} catch ( \Throwable $error ) {
			LoggerFactory::getInstance( 'Weboid' )->error(
				'Could not mark the links of a page: {reason}',
				[ 'reason' => $error->getMessage(), 'exception' => $error ]
			);
		}
	}

	/** Count a page as modified when its marks changed or have expired. */
	public function onOutputPageCheckLastModified( &$modifiedTimes, $out ) {
		try {
			$title = $out->getTitle();
			if ( $this->isCovered( $title ) ) {
				$marks = $this->pageMarks->get( $title->getArticleID(), $out->getLanguage()->getCode() );
				$now = time();
				$touched = (int)wfTimestamp( TS_UNIX, $modifiedTimes['page'] ?? '19700101000000' );
				// An entry from before an edit does not apply to the present page.
				$isStale = !$marks || $marks['until'] <= $now || $touched >= $marks['changed'];
				// A time in the future would hide an edit within this second.
				$modified = $isStale ? $now : min( $marks['changed'], $now );
				$modifiedTimes['weboid'] = gmdate( 'YmdHis', $modified );
			}
		} catch ( \Throwable $error ) {
			$modifiedTimes['weboid'] = gmdate( 'YmdHis' );
		}
	}

	/** @inheritDoc */
	public function onSidebarBeforeOutput( $skin, &$sidebar ) {
		$title = $skin->getTitle();
		if ( $this->isCovered( $title ) ) {
			$listTitle = $this->specialPages->getTitleForAlias( 'WeboidLinks/' . $title->getPrefixedDBkey() );
			$sidebar['TOOLBOX']['weboid'] = [
				'id' => 't-weboid',
				'msg' => 'weboid-toolbox',
				'href' => $listTitle->getLocalURL(),
			];
		}
	}

	private function isCovered( $title ): bool {
		return $this->settings->front() !== '' && $title && $title->getArticleID() > 0
			&& $this->settings->covers( $title->getNamespace() );
	}

	private function markedHtml( $out, int $pageId, string $text ): string {
		$links = Marker::fromSettings( $this->settings )->links( $text );
		$lang = $out->getLanguage()->getCode();
		$changed = (int)wfTimestamp( TS_UNIX, $out->getWikiPage()->getTouched() );
		if ( !$links ) {
			$this->pageMarks->set( $pageId, $lang, (string)$changed, PHP_INT_MAX );
			return $text;
		}
		$lookup = $this->front->lookup( $pageId, array_column( $links, 'url' ), $lang, $changed );
		$this->pageMarks->set( $pageId, $lang, sha1( serialize( [ $changed, $lookup['links'] ] ) ), $lookup['until'] );
		if ( $lookup['waiting'] ) {
			$out->lowerCdnMaxage( max( 1, $lookup['until'] - time() ) );
		}
		if ( !$lookup['links'] ) {
			return $text;
		}
		$show = $this->settings->show();
		if ( $show !== 'never' ) {
			$out->addModuleStyles( [ 'ext.weboid.styles' ] );
			if ( $lookup['soon'] ) {
				$out->addModules( [ 'ext.weboid.poll' ] );
			}
		}
		return Marker::mark( $text, $links, $lookup['links'], $show, self::labels( $out ) );
	}

	/** Return a function for labels and accessible names; it caches messages, which are slow to render. */
	private static function labels( $out ): callable {
		$messages = [];
		$days = [];
		return static function ( string $kind, string $url, array $answer ) use ( $out, &$messages, &$days ) {
			if ( $kind === 'queued' && !empty( $answer['next'] ) ) {
				$kind = 'waiting';
			} elseif ( $kind === 'copy' && !empty( $answer['dead'] ) ) {
				$kind = 'dead';
			}
			$key = self::LABELS[$kind];
			$messages[$key] = $messages[$key] ?? [
				$out->msg( $key )->text(),
				$out->msg( "$key-name" )->plaintextParams( "\x01", "\x02" )->text(),
			];
			[ $label, $name ] = $messages[$key];
			$date = (string)$answer['date'];
			// Offsets of time zones are multiples of a quarter of an hour.
			$quarter = substr( $date, 0, 14 ) . intdiv( (int)substr( $date, 14, 2 ), 15 );
			$days[$quarter] = $days[$quarter] ?? self::day( $out, $date );
			return [ $label, strtr( $name, [ "\x01" => Url::shorten( $url ), "\x02" => $days[$quarter] ] ) ];
		};
	}

	/** Return a copy's day in the reader's language and time zone; '' without a date. */
	private static function day( $out, string $date ): string {
		$timestamp = $date === '' ? false : wfTimestamp( TS_MW, $date );
		return $timestamp ? $out->getLanguage()->userDate( $timestamp, $out->getUser() ) : '';
	}
}
