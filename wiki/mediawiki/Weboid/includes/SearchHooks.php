<?php

namespace MediaWiki\Extension\Weboid;

use MediaWiki\Logger\LoggerFactory;

/**
 * Hooks that warn on Special:LinkSearch and in list=exturlusage of the API about links that the wiki excludes
 * from link search (X06), and that show the extension's settings to `weboid wiki check`.
 *
 * @license GPL-3.0-or-later
 */
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
			$entries = $this->exclusions->find( $pattern );
			if ( $entries ) {
				$special->getOutput()->addHTML( SpecialWeboidLinks::box( 'warning', $special->msg( 'weboid-search-excluded' )
					->plaintextParams( implode( ', ', $entries ) )->escaped() ) );
			}
		} catch ( \Throwable $error ) {
			self::logError( $error );
		}
	}

	/** @inheritDoc */
	public function onAPIQueryAfterExecute( $module ) {
		try {
			if ( $module->getModuleName() !== 'exturlusage' ) {
				return;
			}
			$query = $module->extractRequestParams()['query'] ?? null;
			$entries = is_string( $query ) ? $this->exclusions->find( $query ) : [];
			if ( $entries ) {
				$module->addWarning( [ 'weboid-search-excluded', wfEscapeWikiText( implode( ', ', $entries ) ) ] );
			}
		} catch ( \Throwable $error ) {
			self::logError( $error );
		}
	}

	/** @inheritDoc */
	public function onAPIQuerySiteInfoGeneralInfo( $module, &$results ) {
		// The class has a namespace since MediaWiki 1.42.
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
			'secret' => $this->settings->secretFingerprint(),
		];
	}

	private static function logError( \Throwable $error ): void {
		LoggerFactory::getInstance( 'Weboid' )->error(
			'Could not check whether links are excluded from search: {reason}',
			[ 'reason' => $error->getMessage(), 'exception' => $error ]
		);
	}
}
