<?php
/**
 * Special:WeboidLinks/PAGE: a page's external links, what is known of them, and the level of each (A19).
 *
 * Everybody who may read the page reads it. Whoever has the right weboid-level sets levels, by a form
 * with MediaWiki's token; weboid keeps who did it.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

class SpecialWeboidLinks extends SpecialPageBase {
	private const AT_ONCE = 200;
	private const LONGEST_REASON = 255;
	/** What stands before a stored level in the form's choices. */
	private const STORE = 'store:';
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
		$out->addHTML( $this->chooser( $title ? $title->getPrefixedText() : $name ) );
		if ( $name === '' ) {
			return;
		}
		// A page that somebody may not read looks to them like one that there is not.
		$isThere = $title && $title->getArticleID() > 0
			&& $this->permissions->userCan( 'read', $this->getUser(), $title );
		if ( !$isThere ) {
			$out->addHTML( self::box( 'error', $this->msg( 'weboid-links-nopage' )->escaped() ) );
			return;
		}
		$urls = $this->urlsOf( $title );
		if ( $request->wasPosted() && $request->getRawVal( 'url' ) !== null ) {
			$out->addHTML( $this->setLevel( $urls ) );
		}
		$out->addHTML( $this->listing( $title, $urls ) );
	}

	/** The external links of a page as its readers have it, without those that are none for an archive. */
	private function urlsOf( $title ): array {
		$page = $this->wikiPages->newFromTitle( $title );
		$made = $page->getParserOutput( $page->makeParserOptions( 'canonical' ) );
		if ( !$made || !$this->settings->covers( $title->getNamespace() ) ) {
			return [];
		}
		$marker = Marker::of( $this->settings );
		$urls = [];
		foreach ( array_keys( $made->getExternalLinks() ) as $url ) {
			$url = (string)$url;
			if ( Address::host( $url ) !== '' && !$marker->isOwn( $url ) && !$marker->isArchive( $url ) ) {
				$urls[] = $url;
			}
		}
		return $urls;
	}

	private function maySet(): bool {
		$user = $this->getUser();
		return $user->isRegistered() && $this->webhook->isThere()
			&& $this->permissions->userHasRight( $user, self::RIGHT );
	}

	/** Do what the form asks for, and tell what came of it. */
	private function setLevel( array $urls ): string {
		$user = $this->getUser();
		$this->checkReadOnly();
		if ( !$this->permissions->userHasRight( $user, self::RIGHT ) || !$user->isRegistered() ) {
			// The same words as for any other right that somebody has not.
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
		$isStored = strpos( $level, self::STORE ) === 0;
		$level = $isStored ? substr( $level, strlen( self::STORE ) ) : $level;
		$offered = $isStored ? Settings::STORED_LEVELS : $this->settings->levels();
		if ( !in_array( $url, $urls, true ) || ( $level !== '' && !in_array( $level, $offered, true ) ) ) {
			return self::box( 'error', $this->msg( 'weboid-level-strange' )->escaped() );
		}
		$reason = mb_substr( trim( $request->getText( 'reason' ) ), 0, self::LONGEST_REASON );
		[ $status, $said ] = $this->webhook->setLevel(
			$user->getName(), $url, $level === '' ? null : $level, $reason, $isStored
		);
		if ( $status === 200 ) {
			$short = Address::short( $url );
			$kind = $isStored ? 'weboid-store' : 'weboid-level';
			return self::box( 'success', $level === ''
				? $this->msg( "$kind-cleared" )->plaintextParams( $short )->escaped()
				: $this->msg( "$kind-done" )
					->plaintextParams( $short, $this->msg( "$kind-$level" )->text() )->escaped()
			);
		}
		return self::box( 'error', $status === 0
			? $this->msg( 'weboid-level-silent' )->escaped()
			: $this->msg( 'weboid-level-refused' )->plaintextParams( $said === '' ? $status : $said )->escaped()
		);
	}

	private static function permissionError(): \Throwable {
		// The class was given a namespace in MediaWiki 1.43.
		$class = class_exists( \MediaWiki\Exception\PermissionsError::class )
			? \MediaWiki\Exception\PermissionsError::class
			: \PermissionsError::class;
		return new $class( self::RIGHT );
	}

	private function chooser( string $name ): string {
		return '<p>' . $this->msg( 'weboid-links-summary' )->escaped() . '</p>' .
			'<form method="get"' . Marker::attributes( [ 'action' => $this->getPageTitle()->getLocalURL() ] ) . '>' .
			// Where paths are queries the form would lose the special page's title.
			'<input type="hidden" name="title"' .
			Marker::attributes( [ 'value' => $this->getPageTitle()->getPrefixedDBkey() ] ) . '>' .
			'<label>' . $this->msg( 'weboid-links-page' )->escaped() .
			' <input name="page" size="40" maxlength="255"' . Marker::attributes( [ 'value' => $name ] ) . '></label> ' .
			'<button type="submit">' . $this->msg( 'weboid-links-show' )->escaped() . '</button></form>';
	}

	private function listing( $title, array $urls ): string {
		$link = $this->getLinkRenderer()->makeKnownLink( $title );
		$made = '<h2>' . $this->msg( 'weboid-links-of' )->rawParams( $link )->escaped() . '</h2>';
		if ( !$urls ) {
			return $made . '<p>' . $this->msg( 'weboid-links-none' )->escaped() . '</p>';
		}
		$from = max( 0, $this->getRequest()->getInt( 'from' ) );
		$part = array_slice( $urls, $from, self::AT_ONCE );
		[ $known, $trouble ] = $this->known( $title->getArticleID(), $part );
		if ( $trouble !== '' ) {
			$made .= self::box( 'warning', $this->msg( $trouble )->escaped() );
		}
		$columns = [ 'link', 'state', 'copy' ];
		if ( $this->maySet() ) {
			$columns[] = 'level';
		}
		$made .= '<div class="weboid-scroll" tabindex="0"><table class="wikitable weboid-links"><thead><tr>';
		foreach ( $columns as $column ) {
			$made .= '<th scope="col">' . $this->msg( "weboid-links-$column" )->escaped() . '</th>';
		}
		$made .= '</tr></thead><tbody>';
		foreach ( $part as $url ) {
			$unknown = $trouble === '' ? 'weboid-links-unknown' : 'weboid-links-untold';
			$made .= $this->row( $title, $url, $known[$url] ?? null, $unknown, $from );
		}
		return $made . '</tbody></table></div>' . $this->turning( $title, $from, count( $urls ) );
	}

	/**
	 * What is known of links, and the message that says why there is not more; empty when this is all.
	 *
	 * @param int $pageId
	 * @param string[] $urls
	 * @return array{0:array<string,array>,1:string}
	 */
	private function known( int $pageId, array $urls ): array {
		if ( $this->settings->front() === '' ) {
			return [ [], 'weboid-links-down' ];
		}
		$lang = $this->getLanguage()->getCode();
		$said = $this->front->ask( $pageId, $urls, $lang );
		if ( !$said['missing'] ) {
			return [ $said['links'], '' ];
		}
		// Whoever reads this list is told that it is old; a reader of the page would not be.
		$links = $said['links'] + $this->front->remembered( $pageId, $urls, $lang );
		return [ $links, $said['busy'] ? 'weboid-links-busy' : 'weboid-links-down' ];
	}

	private function row( $title, string $url, ?array $fact, string $unknown, int $from ): string {
		// A protocol-relative link has no scheme to be shown with: it leads where the page's leads.
		$made = '<tr><td><a rel="nofollow" class="external"' . Marker::attributes( [ 'href' => $url ] ) . '>' .
			'<bdi>' . htmlspecialchars( Address::short( $url, 100 ) ) . '</bdi></a></td>';
		$made .= '<td>' . htmlspecialchars( $this->stateOf( $fact, $unknown ) ) . '</td><td>' . $this->copyOf( $fact ) . '</td>';
		if ( $this->maySet() ) {
			$made .= '<td>' . $this->form( $title, $url, $from ) . '</td>';
		}
		return $made . '</tr>';
	}

	/** How a link is doing: the copy has a column of its own. */
	private function stateOf( ?array $fact, string $unknown ): string {
		if ( !$fact ) {
			return $this->msg( $unknown )->text();
		}
		$isPlain = $fact['group'] === 'working' && $fact['kind'] === 'copy';
		if ( !$isPlain || $fact['checked'] === null ) {
			return $fact['words'] === '' ? $this->msg( $unknown )->text() : $fact['words'];
		}
		$days = intdiv( max( 0, time() - (int)wfTimestamp( TS_UNIX, $fact['checked'] . 'T00:00:00Z' ) ), 86_400 );
		$state = $this->msg( 'weboid-links-working' )->numParams( $days )->text();
		if ( $fact['mime'] === '' ) {
			return $state;
		}
		return $fact['kib'] === null
			? $this->msg( 'weboid-links-file' )->plaintextParams( $state, $fact['mime'] )->text()
			: $this->msg( 'weboid-links-file-size' )
				->plaintextParams( $state, $fact['mime'] )->numParams( $fact['kib'] )->text();
	}

	private function copyOf( ?array $fact ): string {
		if ( !$fact || $fact['kind'] === 'none' ) {
			return '–';
		}
		$moment = $fact['date'] === null ? false : wfTimestamp( TS_MW, $fact['date'] );
		$queued = empty( $fact['next'] ) ? 'weboid-queued' : 'weboid-waiting';
		$labels = [ 'copy' => 'weboid-cached', 'queued' => $queued ];
		$word = $fact['kind'] === 'copy' && $moment
			? $this->getLanguage()->userTimeAndDate( $moment, $this->getUser() )
			: $this->msg( $labels[$fact['kind']] ?? 'weboid-not-archived' )->text();
		if ( $fact['href'] === null ) {
			return htmlspecialchars( $word );
		}
		return '<a rel="nofollow"' . Marker::attributes( [ 'href' => $fact['href'] ] ) . '>' .
			htmlspecialchars( $word ) . '</a>';
	}

	private function form( $title, string $url, int $from ): string {
		$short = Address::short( $url );
		$made = '<form method="post"' . Marker::attributes( [
			'action' => $this->getPageTitle( $title->getPrefixedDBkey() )->getLocalURL( $from ? [ 'from' => $from ] : [] ),
		] ) . '><input type="hidden" name="url"' . Marker::attributes( [ 'value' => $url ] ) . '>' .
			'<input type="hidden" name="wpEditToken"' . Marker::attributes( [
				'value' => (string)$this->getContext()->getCsrfTokenSet()->getToken(),
			] ) . '><select name="level"' . Marker::attributes( [
				'aria-label' => $this->msg( 'weboid-links-level-for' )->plaintextParams( $short )->text(),
			] ) . '><option value="">' . $this->msg( 'weboid-level-none' )->escaped() . '</option>';
		foreach ( $this->settings->levels() as $level ) {
			$made .= "<option value=\"$level\">" . $this->msg( "weboid-level-$level" )->escaped() . '</option>';
		}
		$made .= '<optgroup' . Marker::attributes( [ 'label' => $this->msg( 'weboid-store-group' )->text() ] ) . '>';
		foreach ( array_merge( [ '' ], Settings::STORED_LEVELS ) as $level ) {
			$made .= '<option value="' . self::STORE . $level . '">' .
				$this->msg( 'weboid-store-' . ( $level === '' ? 'none' : $level ) )->escaped() . '</option>';
		}
		return $made . '</optgroup></select><input name="reason" size="16" maxlength="255"' . Marker::attributes( [
			'placeholder' => $this->msg( 'weboid-links-reason' )->text(),
			'aria-label' => $this->msg( 'weboid-links-reason-for' )->plaintextParams( $short )->text(),
		] ) . '><button type="submit"' . Marker::attributes( [
			'aria-label' => $this->msg( 'weboid-links-set-for' )->plaintextParams( $short )->text(),
		] ) . '>' . $this->msg( 'weboid-links-set' )->escaped() . '</button></form>';
	}

	/** The ways to earlier and later links. */
	private function turning( $title, int $from, int $all ): string {
		$here = $this->getPageTitle( $title->getPrefixedDBkey() );
		$ways = [];
		if ( $from > 0 ) {
			$ways['earlier'] = max( 0, $from - self::AT_ONCE );
		}
		if ( $from + self::AT_ONCE < $all ) {
			$ways['later'] = $from + self::AT_ONCE;
		}
		$made = '';
		foreach ( $ways as $name => $place ) {
			$made .= '<a' . Marker::attributes( [ 'href' => $here->getLocalURL( [ 'from' => $place ] ) ] ) . '>' .
				$this->msg( "weboid-links-$name" )->escaped() . '</a> ';
		}
		return $made === '' ? '' : "<p>$made</p>";
	}

	/** A message in a box. */
	public static function box( string $kind, string $html ): string {
		// Classes of 1.39 and earlier, and Codex's, which later skins know.
		return "<div class=\"mw-message-box mw-message-box-$kind cdx-message cdx-message--block cdx-message--$kind\"" .
			' role="status"><div class="cdx-message__content">' . $html . '</div></div>';
	}
}
