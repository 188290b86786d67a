<?php
/**
 * The extension's services.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

use MediaWiki\Logger\LoggerFactory;

// What a wiki without a cache of its own gets is a table of its database: every view would ask otherwise.
$sharedCache = static function ( $services ) {
	return $services->hasService( 'ObjectCacheFactory' )
		? $services->getService( 'ObjectCacheFactory' )->getInstance( CACHE_ANYTHING )
		: \ObjectCache::getInstance( CACHE_ANYTHING );
};

return [
	'Weboid.Settings' => static function ( $services ) {
		return new Settings( $services->getMainConfig() );
	},
	'Weboid.Front' => static function ( $services ) use ( $sharedCache ) {
		return new Front(
			$services->getService( 'Weboid.Settings' ),
			new Sender( $services->getHttpRequestFactory() ),
			$sharedCache( $services ),
			LoggerFactory::getInstance( 'Weboid' )
		);
	},
	'Weboid.Exclusions' => static function ( $services ) use ( $sharedCache ) {
		return new Exclusions(
			$services->getService( 'Weboid.Settings' ),
			new Sender( $services->getHttpRequestFactory() ),
			$sharedCache( $services )
		);
	},
	'Weboid.ShownPages' => static function ( $services ) use ( $sharedCache ) {
		return new ShownPages( $sharedCache( $services ) );
	},
	'Weboid.Webhook' => static function ( $services ) use ( $sharedCache ) {
		return new Webhook(
			$services->getService( 'Weboid.Settings' ),
			new Sender( $services->getHttpRequestFactory() ),
			$sharedCache( $services ),
			LoggerFactory::getInstance( 'Weboid' )
		);
	},
];
