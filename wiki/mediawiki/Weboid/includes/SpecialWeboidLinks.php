<?php

namespace MediaWiki\Extension\Weboid;

/**
 * Special:WeboidLinks/PAGE: external links of a page with their states, copies and levels (A19).
 *
 * Users who may read the page see the list. Users with the right weboid-level can set levels with a form that
 * contains MediaWiki's edit token; Weboid stores account, time and reason.
 *
 * @license GPL-3.0-or-later
 */
class SpecialWeboidLinks extends SpecialPageBase {
	private const LINKS_PER_PAGE = 200;
	private const MAX_REASON_LENGTH = 255;
	/** Prefix of stored levels among the form's options. */
	private const STORED_PREFIX = 'store:';
	private const RIGHT = 'weboid-level';

	/** @var Settings */
	private $settings;
	/** @var Front */
	private $front;
	/** @var Webhook */
	private $webhook;
	/** @var mixed MediaWiki's TitleFactory */
	private $titles;
	/** @var mixed MediaWiki's WikiPageFactory */
	private $wikiPages;
	/** @var mixed MediaWiki's PermissionManager */
	private $permissions;

	public function __construct( Settings $settings, Front $front, Webhook $webhook, $titles, $wikiPages, $permissions ) {
		parent::__construct( 'WeboidLinks' );
		$this->settings = $settings;
		$this->front = $front;
		$this->webhook = $webhook;
		$this->titles = $titles;
		$this->wikiPages = $wikiPages;
		$this->permissions = $permissions;
	}

	/** @inheritDoc */
	public function doesWrites() {
		return true;
	}

	/** @inheritDoc */
	protected function getGroupName() {
		return 'pagetools';
	}

	/** @inheritDoc */
	public function execute( $subPage ) {
		$this->setHeaders();
		$out = $this->getOutput();
		$out->addModuleStyles( [ 'ext.weboid.styles' ] );
		$request = $this->getRequest();
		$name = $request->getText( 'page', (string)$subPage );
		$title = $name === '' ? null : $this->titles->newFromText( $name );
		$out->addHTML( $this->titleForm( $title ? $title->getPrefixedText() : $name ) );
		if ( $name === '' ) {
			return;
		}
		// Users who may not read a page get the same message as for a missing one.
		$isReadable = $title && $title->getArticleID() > 0
			&& $this->permissions->userCan( 'read', $this->getUser(), $title );
		if ( !$isReadable ) {
			$out->addHTML( self::box( 'error', $this->msg( 'weboid-links-nopage' )->escaped() ) );
			return;
		}
		$urls = $this->externalUrls( $title );
		if ( $request->wasPosted() && $request->getRawVal( 'url' ) !== null ) {
			$out->addHTML( $this->setLevel( $urls ) );
		}
		$out->addHTML( $this->listing( $title, $urls ) );
	}

	/** Return the external links of a page as shown to readers, without own links and archive links. */
	private function externalUrls( $title ): array {
		$page = $this->wikiPages->newFromTitle( $title );
		$output = $page->getParserOutput( $page->makeParserOptions( 'canonical' ) );
		if ( !$output || !$this->settings->covers( $title->getNamespace() ) ) {
			return [];
		}
		$marker = Marker::fromSettings( $this->settings );
		$urls = [];
		foreach ( array_keys( $output->getExternalLinks() ) as $url ) {
			$url = (string)$url;
			if ( Url::host( $url ) !== '' && !$marker->isOwn( $url ) && !$marker->isArchive( $url ) ) {
				$urls[] = $url;
			}
		}
		return $urls;
	}

	private function maySetLevels(): bool {
		$user = $this->getUser();
		return $user->isRegistered() && $this->webhook->isConfigured()
			&& $this->permissions->userHasRight( $user, self::RIGHT );
	}

	/** Set the level that the form contains; return a message box with the result. */
	private function setLevel( array $urls ): string {
		$user = $this->getUser();
		$this->checkReadOnly();
		if ( !$this->permissions->userHasRight( $user, self::RIGHT ) || !$user->isRegistered() ) {
			throw self::permissionError();
		}
		$block = $user->getBlock();
		if ( $block && $block->isSitewide() ) {
			throw self::permissionError();
		}
		$request = $this->getRequest();
		if ( !$this->getContext()->getCsrfTokenSet()->matchTokenField() ) {
			return self::box( 'error', $this->msg( 'weboid-level-token' )->escaped() );
		}
		$url = $request->getText( 'url' );
		$level = $request->getText( 'level' );
		$isStored = strpos( $level, self::STORED_PREFIX ) === 0;
		$level = $isStored ? substr( $level, strlen( self::STORED_PREFIX ) ) : $level;
		$allowed = $isStored ? Settings::STORED_LEVELS : $this->settings->levels();
		if ( !in_array( $url, $urls, true ) || ( $level !== '' && !in_array( $level, $allowed, true ) ) ) {
			return self::box( 'error', $this->msg( 'weboid-level-strange' )->escaped() );
		}
		$reason = mb_substr( trim( $request->getText( 'reason' ) ), 0, self::MAX_REASON_LENGTH );
		[ $status, $error ] = $this->webhook->setLevel(
			$user->getName(), $url, $level === '' ? null : $level, $reason, $isStored
		);
		if ( $status === 200 ) {
			$short = Url::shorten( $url );
			$kind = $isStored ? 'weboid-store' : 'weboid-level';
			return self::box( 'success', $level === ''
				? $this->msg( "$kind-cleared" )->plaintextParams( $short )->escaped()
				: $this->msg( "$kind-done" )
					->plaintextParams( $short, $this->msg( "$kind-$level" )->text() )->escaped()
			);
		}
		return self::box( 'error', $status === 0
			? $this->msg( 'weboid-level-silent' )->escaped()
			: $this->msg( 'weboid-level-refused' )->plaintextParams( $error === '' ? $status : $error )->escaped()
		);
	}

	private static function permissionError(): \Throwable {
		// The class has a namespace since MediaWiki 1.43.
		$class = class_exists( \MediaWiki\Exception\PermissionsError::class )
			? \MediaWiki\Exception\PermissionsError::class
			: \PermissionsError::class;
		return new $class( self::RIGHT );
	}

	private function titleForm( string $name ): string {
		return '<p>' . $this->msg( 'weboid-links-summary' )->escaped() . '</p>' .
			'<form method="get"' . Marker::attributes( [ 'action' => $this->getPageTitle()->getLocalURL() ] ) . '>' .
			// Without short URLs the title is a query parameter, which the form would drop.
			'<input type="hidden" name="title"' .
			Marker::attributes( [ 'value' => $this->getPageTitle()->getPrefixedDBkey() ] ) . '>' .
			'<label>' . $this->msg( 'weboid-links-page' )->escaped() .
			' <input name="page" size="40" maxlength="255"' . Marker::attributes( [ 'value' => $name ] ) . '></label> ' .
			'<button type="submit">' . $this->msg( 'weboid-links-show' )->escaped() . '</button></form>';
	}

	private function listing( $title, array $urls ): string {
		$link = $this->getLinkRenderer()->makeKnownLink( $title );
		$html = '<h2>' . $this->msg( 'weboid-links-of' )->rawParams( $link )->escaped() . '</h2>';
		if ( !$urls ) {
			return $html . '<p>' . $this->msg( 'weboid-links-none' )->escaped() . '</p>';
		}
		$from = max( 0, $this->getRequest()->getInt( 'from' ) );
		$part = array_slice( $urls, $from, self::LINKS_PER_PAGE );
		[ $answers, $warning ] = $this->lookup( $title->getArticleID(), $part );
		if ( $warning !== '' ) {
			$html .= self::box( 'warning', $this->msg( $warning )->escaped() );
		}
		$columns = [ 'link', 'state', 'copy' ];
		if ( $this->maySetLevels() ) {
			$columns[] = 'level';
		}
		$html .= '<div class="weboid-scroll" tabindex="0"><table class="wikitable weboid-links"><thead><tr>';
		foreach ( $columns as $column ) {
			$html .= '<th scope="col">' . $this->msg( "weboid-links-$column" )->escaped() . '</th>';
		}
		$html .= '</tr></thead><tbody>';
		foreach ( $part as $url ) {
			$unknown = $warning === '' ? 'weboid-links-unknown' : 'weboid-links-untold';
			$html .= $this->row( $title, $url, $answers[$url] ?? null, $unknown, $from );
		}
		return $html . '</tbody></table></div>' . $this->pager( $title, $from, count( $urls ) );
	}

	/**
	 * Return the answers about links, and the key of a warning if some are missing ('' otherwise).
	 *
	 * @param int $pageId
	 * @param string[] $urls
	 * @return array{0:array<string,array>,1:string}
	 */
	private function lookup( int $pageId, array $urls ): array {
		if ( $this->settings->front() === '' ) {
			return [ [], 'weboid-links-down' ];
		}
		$lang = $this->getLanguage()->getCode();
		$lookup = $this->front->lookup( $pageId, $urls, $lang );
		if ( !$lookup['missing'] ) {
			return [ $lookup['links'], '' ];
		}
		// Old answers are shown here, unlike in page views, because the warning says so.
		$links = $lookup['links'] + $this->front->recentAnswers( $pageId, $urls, $lang );
		return [ $links, $lookup['busy'] ? 'weboid-links-busy' : 'weboid-links-down' ];
	}

	private function row( $title, string $url, ?array $answer, string $unknown, int $from ): string {
		$html = '<tr><td><a rel="nofollow" class="external"' . Marker::attributes( [ 'href' => $url ] ) . '>' .
			'<bdi>' . htmlspecialchars( Url::shorten( $url, 100 ) ) . '</bdi></a></td>';
		$html .= '<td>' . htmlspecialchars( $this->stateText( $answer, $unknown ) ) . '</td>';
		$html .= '<td>' . $this->copyCell( $answer ) . '</td>';
		if ( $this->maySetLevels() ) {
			$html .= '<td>' . $this->levelForm( $title, $url, $from ) . '</td>';
		}
		return $html . '</tr>';
	}

	/** Return the state of a link, without its copy, which has a separate column. */
	private function stateText( ?array $answer, string $unknown ): string {
		if ( !$answer ) {
			return $this->msg( $unknown )->text();
		}
		$isWorking = $answer['group'] === 'working' && $answer['kind'] === 'copy';
		if ( !$isWorking || $answer['checked'] === null ) {
			return $answer['words'] === '' ? $this->msg( $unknown )->text() : $answer['words'];
		}
		$days = intdiv( max( 0, time() - (int)wfTimestamp( TS_UNIX, $answer['checked'] . 'T00:00:00Z' ) ), 86_400 );
		$state = $this->msg( 'weboid-links-working' )->numParams( $days )->text();
		if ( $answer['mime'] === '' ) {
			return $state;
		}
		return $answer['kib'] === null
			? $this->msg( 'weboid-links-file' )->plaintextParams( $state, $answer['mime'] )->text()
			: $this->msg( 'weboid-links-file-size' )
				->plaintextParams( $state, $answer['mime'] )->numParams( $answer['kib'] )->text();
	}

	private function copyCell( ?array $answer ): string {
		if ( !$answer || $answer['kind'] === 'none' ) {
			return '–';
		}
		$timestamp = $answer['date'] === null ? false : wfTimestamp( TS_MW, $answer['date'] );
		$queued = empty( $answer['next'] ) ? 'weboid-queued' : 'weboid-waiting';
		$labels = [ 'copy' => 'weboid-cached', 'queued' => $queued ];
		$text = $answer['kind'] === 'copy' && $timestamp
			? $this->getLanguage()->userTimeAndDate( $timestamp, $this->getUser() )
			: $this->msg( $labels[$answer['kind']] ?? 'weboid-not-archived' )->text();
		if ( $answer['href'] === null ) {
			return htmlspecialchars( $text );
		}
		return '<a rel="nofollow"' . Marker::attributes( [ 'href' => $answer['href'] ] ) . '>' .
			htmlspecialchars( $text ) . '</a>';
	}

	private function levelForm( $title, string $url, int $from ): string {
		$short = Url::shorten( $url );
		$html = '<form method="post"' . Marker::attributes( [
			'action' => $this->getPageTitle( $title->getPrefixedDBkey() )->getLocalURL( $from ? [ 'from' => $from ] : [] ),
		] ) . '><input type="hidden" name="url"' . Marker::attributes( [ 'value' => $url ] ) . '>' .
			'<input type="hidden" name="wpEditToken"' . Marker::attributes( [
				'value' => (string)$this->getContext()->getCsrfTokenSet()->getToken(),
			] ) . '><select name="level"' . Marker::attributes( [
				'aria-label' => $this->msg( 'weboid-links-level-for' )->plaintextParams( $short )->text(),
			] ) . '><option value="">' . $this->msg( 'weboid-level-none' )->escaped() . '</option>';
		foreach ( $this->settings->levels() as $level ) {
			$html .= "<option value=\"$level\">" . $this->msg( "weboid-level-$level" )->escaped() . '</option>';
		}
		$html .= '<optgroup' . Marker::attributes( [ 'label' => $this->msg( 'weboid-store-group' )->text() ] ) . '>';
		foreach ( array_merge( [ '' ], Settings::STORED_LEVELS ) as $level ) {
			$html .= '<option value="' . self::STORED_PREFIX . $level . '">' .
				$this->msg( 'weboid-store-' . ( $level === '' ? 'none' : $level ) )->escaped() . '</option>';
		}
		return $html . '</optgroup></select><input name="reason" size="16" maxlength="255"' . Marker::attributes( [
			'placeholder' => $this->msg( 'weboid-links-reason' )->text(),
			'aria-label' => $this->msg( 'weboid-links-reason-for' )->plaintextParams( $short )->text(),
		] ) . '><button type="submit"' . Marker::attributes( [
			'aria-label' => $this->msg( 'weboid-links-set-for' )->plaintextParams( $short )->text(),
		] ) . '>' . $this->msg( 'weboid-links-set' )->escaped() . '</button></form>';
	}

	/** Return links to the previous and next part of the list. */
	private function pager( $title, int $from, int $count ): string {
		$here = $this->getPageTitle( $title->getPrefixedDBkey() );
		$offsets = [];
		if ( $from > 0 ) {
			$offsets['earlier'] = max( 0, $from - self::LINKS_PER_PAGE );
		}
		if ( $from + self::LINKS_PER_PAGE < $count ) {
			$offsets['later'] = $from + self::LINKS_PER_PAGE;
		}
		$html = '';
		foreach ( $offsets as $name => $offset ) {
			$html .= '<a' . Marker::attributes( [ 'href' => $here->getLocalURL( [ 'from' => $offset ] ) ] ) . '>' .
				$this->msg( "weboid-links-$name" )->escaped() . '</a> ';
		}
		return $html === '' ? '' : "<p>$html</p>";
	}

	/** Return a message box. */
	public static function box( string $kind, string $html ): string {
		// mw-message-box for MediaWiki 1.39, cdx-message for later skins.
		return "<div class=\"mw-message-box mw-message-box-$kind cdx-message cdx-message--block cdx-message--$kind\"" .
			' role="status"><div class="cdx-message__content">' . $html . '</div></div>';
	}
}
