<?php
/**
 * Tells the webhook which links of a page changed. The job queue tries again what was not heard.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

use MediaWiki\MediaWikiServices;

class LinkChangesJob extends JobBase {
	public const NAME = 'weboidLinkChanges';

	/**
	 * @param mixed $title not used: a job of this kind is about a page's number
	 * @param array{page:int,rev:int,added:string[],removed:string[]} $params
	 */
	public function __construct( $title, array $params ) {
		parent::__construct( self::NAME, $params );
		// The same change of the same page is told once: a job that waits swallows its double.
		$this->removeDuplicates = true;
	}

	/** @inheritDoc */
	public function run() {
		$webhook = MediaWikiServices::getInstance()->getService( 'Weboid.Webhook' );
		$trouble = $webhook->tellChanges( [ [
			'page_id' => (int)$this->params['page'],
			'rev' => (int)$this->params['rev'],
			'added' => array_values( $this->params['added'] ),
			'removed' => array_values( $this->params['removed'] ),
		] ] );
		if ( $trouble !== '' ) {
			$this->setLastError( $trouble );
			return false;
		}
		if ( $this->params['added'] ) {
			MediaWikiServices::getInstance()->getService( 'Weboid.Front' )
				->noteSent( (int)$this->params['page'], array_values( $this->params['added'] ) );
		}
		return true;
	}
}
