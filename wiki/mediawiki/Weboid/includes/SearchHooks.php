<?php
/**
 * What searches for links do not find is said where they are made, on Special:LinkSearch and in the API's
 * list=exturlusage (X06); and how the extension is set, to `weboid wiki check`.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

use MediaWiki\Logger\LoggerFactory;

class SearchHooks {
	/** @var Settings */
	private $settings;
	/** @var Exclusions */
	private $exclusions;

	public function __construct( Settings $settings, Exclusions $exclusions ) {
		$this->settings = $settings;
		$this->exclusions = $exclusions;
	}

	/** @inheritDoc */
	public function onSpecialPageBeforeExecute( $special, $subPage ) {
		try {
			if ( $special->getName() !== 'LinkSearch' ) {
				return;
			}
			$pattern = $special->getRequest()->getText( 'target', (string)$subPage );
			$found = $this->exclusions->of( $pattern );
			if ( $found ) {
				$special->getOutput()->addHTML( SpecialWeboidLinks::box( 'warning', $special->msg( 'weboid-search-excluded' )
					->plaintextParams( implode( ', ', $found ) )->escaped() ) );
			}
		} catch ( \Throwable $error ) {
			self::complain( $error );
		}
	}

	/** @inheritDoc */
	public function onAPIQueryAfterExecute( $module ) {
		try {
			if ( $module->getModuleName() !== 'exturlusage' ) {
				return;
			}
			$query = $module->extractRequestParams()['query'] ?? null;
			$found = is_string( $query ) ? $this->exclusions->of( $query ) : [];
			if ( $found ) {
				$module->addWarning( [ 'weboid-search-excluded', wfEscapeWikiText( implode( ', ', $found ) ) ] );
			}
		} catch ( \Throwable $error ) {
			self::complain( $error );
		}
	}

	/** @inheritDoc */
	public function onAPIQuerySiteInfoGeneralInfo( $module, &$results ) {
		// The class was given a namespace in MediaWiki 1.42.
		$registry = class_exists( \MediaWiki\Registration\ExtensionRegistry::class )
			? \MediaWiki\Registration\ExtensionRegistry::class
			: \ExtensionRegistry::class;
		$installed = $registry::getInstance()->getAllThings()['Weboid'] ?? [];
		$results['weboid'] = [
			'version' => (string)( $installed['version'] ?? '' ),
			'wiki' => $this->settings->wiki(),
			'front' => $this->settings->front() !== '',
			'webhook' => $this->settings->webhook() !== '',
			'origins' => $this->settings->origins(),
			'secret' => $this->settings->secretPrint(),
		];
	}

	private static function complain( \Throwable $error ): void {
		LoggerFactory::getInstance( 'Weboid' )->error(
			'What a search leaves out is not said: {reason}',
			[ 'reason' => $error->getMessage(), 'exception' => $error ]
		);
	}
}
