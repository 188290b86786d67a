<?php
/**
 * Cached links beside external links in what readers get, and the way to the list of a page's links.
 *
 * The hook runs after every cache of the parser, for the old parser and for Parsoid, and for pages alone:
 * what programs ask for is not touched, and nothing of ours is ever in a parser cache. (Since MediaWiki
 * 1.45 what ParserOutputPostCacheTransform makes may be kept, too.)
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

use MediaWiki\Logger\LoggerFactory;

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
	/** @var ShownPages */
	private $pages;
	/** @var mixed MediaWiki's SpecialPageFactory */
	private $specialPages;

	public function __construct( Settings $settings, Front $front, ShownPages $pages, $specialPages ) {
		$this->settings = $settings;
		$this->front = $front;
		$this->pages = $pages;
		$this->specialPages = $specialPages;
	}

	/** @inheritDoc */
	public function onOutputPageBeforeHTML( $out, &$text ) {
		try {
			$title = $out->getTitle();
			if ( $this->isCovered( $title ) && $out->isArticle() ) {
				$text = $this->marked( $out, $title->getArticleID(), $text );
			}
		} catch ( \Throwable $error ) {
			// The page is what it would be without the extension.
			LoggerFactory::getInstance( 'Weboid' )->error(
				'No cached links are shown: {reason}',
				[ 'reason' => $error->getMessage(), 'exception' => $error ]
			);
		}
	}

	/** A browser that has the page asks whether it changed: what is known of its links may have. */
	public function onOutputPageCheckLastModified( &$modifiedTimes, $out ) {
		try {
			$title = $out->getTitle();
			if ( $this->isCovered( $title ) ) {
				$shown = $this->pages->get( $title->getArticleID(), $out->getLanguage()->getCode() );
				$now = time();
				$touched = (int)wfTimestamp( TS_UNIX, $modifiedTimes['page'] ?? '19700101000000' );
				// What was noted before an edit says nothing of the page as it is now.
				$isOld = !$shown || $shown['until'] <= $now || $touched >= $shown['changed'];
				// A date of the future would be later than that of an edit within this second.
				$modified = $isOld ? $now : min( $shown['changed'], $now );
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
			$list = $this->specialPages->getTitleForAlias( 'WeboidLinks/' . $title->getPrefixedDBkey() );
			$sidebar['TOOLBOX']['weboid'] = [
				'id' => 't-weboid',
				'msg' => 'weboid-toolbox',
				'href' => $list->getLocalURL(),
			];
		}
	}

	private function isCovered( $title ): bool {
		return $this->settings->front() !== '' && $title && $title->getArticleID() > 0
			&& $this->settings->covers( $title->getNamespace() );
	}

	private function marked( $out, int $pageId, string $text ): string {
		$links = Marker::of( $this->settings )->links( $text );
		$lang = $out->getLanguage()->getCode();
		$changed = (int)wfTimestamp( TS_UNIX, $out->getWikiPage()->getTouched() );
		if ( !$links ) {
			$this->pages->note( $pageId, $lang, (string)$changed, PHP_INT_MAX );
			return $text;
		}
		$known = $this->front->ask( $pageId, array_column( $links, 'url' ), $lang, $changed );
		$this->pages->note( $pageId, $lang, sha1( serialize( [ $changed, $known['links'] ] ) ), $known['until'] );
		if ( $known['waiting'] ) {
			$out->lowerCdnMaxage( max( 1, $known['until'] - time() ) );
		}
		if ( !$known['links'] ) {
			return $text;
		}
		$show = $this->settings->show();
		if ( $show !== 'never' ) {
			$out->addModuleStyles( [ 'ext.weboid.styles' ] );
			if ( $known['soon'] ) {
				$out->addModules( [ 'ext.weboid.poll' ] );
			}
		}
		return Marker::mark( $text, $links, $known['links'], $show, self::words( $out ) );
	}

	/** Messages are made once for a page: a hundred links would take as long as all the rest. */
	private static function words( $out ): callable {
		$labels = [];
		$days = [];
		return static function ( string $kind, string $url, array $fact ) use ( $out, &$labels, &$days ) {
			if ( $kind === 'queued' && !empty( $fact['next'] ) ) {
				$kind = 'waiting';
			} elseif ( $kind === 'copy' && !empty( $fact['dead'] ) ) {
				$kind = 'dead';
			}
			$label = self::LABELS[$kind];
			$labels[$label] = $labels[$label] ?? [
				$out->msg( $label )->text(),
				$out->msg( "$label-name" )->plaintextParams( "\x01", "\x02" )->text(),
			];
			[ $word, $name ] = $labels[$label];
			$date = (string)$fact['date'];
			// No time zone is apart from another by less than a quarter of an hour.
			$quarter = substr( $date, 0, 14 ) . intdiv( (int)substr( $date, 14, 2 ), 15 );
			$days[$quarter] = $days[$quarter] ?? self::day( $out, $date );
			return [ $word, strtr( $name, [ "\x01" => Address::short( $url ), "\x02" => $days[$quarter] ] ) ];
		};
	}

	/** A copy's day in the reader's language and time zone; empty without one. */
	private static function day( $out, string $date ): string {
		$moment = $date === '' ? false : wfTimestamp( TS_MW, $date );
		return $moment ? $out->getLanguage()->userDate( $moment, $out->getUser() ) : '';
	}
}
