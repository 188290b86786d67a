<?php

namespace MediaWiki\Extension\Weboid;

use MediaWiki\MediaWikiServices;

/**
 * Job that sends a page's changed links to the webhook. The job queue retries it after a failure.
 *
 * @license GPL-3.0-or-later
 */
class LinkChangesJob extends JobBase {
	public const NAME = 'weboidLinkChanges';

	/**
	 * @param mixed $title unused: the page is identified by its number
	 * @param array{page:int,rev:int,added:string[],removed:string[]} $params
	 */
	public function __construct( $title, array $params ) {
		parent::__construct( self::NAME, $params );
		$this->removeDuplicates = true;
	}

	/** @inheritDoc */
	public function run() {
		$webhook = MediaWikiServices::getInstance()->getService( 'Weboid.Webhook' );
		$error = $webhook->sendChanges( [ [
			'page_id' => (int)$this->params['page'],
			'rev' => (int)$this->params['rev'],
			'added' => array_values( $this->params['added'] ),
			'removed' => array_values( $this->params['removed'] ),
		] ] );
		if ( $error !== '' ) {
			$this->setLastError( $error );
			return false;
		}
		if ( $this->params['added'] ) {
			MediaWikiServices::getInstance()->getService( 'Weboid.Front' )
				->recordSent( (int)$this->params['page'], array_values( $this->params['added'] ) );
		}
		return true;
	}
}
