<?php
/**
 * Services of the extension.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

use MediaWiki\Logger\LoggerFactory;

// CACHE_ANYTHING falls back to the database: without a cache every view would send a request.
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
			new HttpClient( $services->getHttpRequestFactory() ),
			$sharedCache( $services ),
			LoggerFactory::getInstance( 'Weboid' )
		);
	},
	'Weboid.Exclusions' => static function ( $services ) use ( $sharedCache ) {
		return new Exclusions(
			$services->getService( 'Weboid.Settings' ),
			new HttpClient( $services->getHttpRequestFactory() ),
			$sharedCache( $services )
		);
	},
	'Weboid.PageMarksCache' => static function ( $services ) use ( $sharedCache ) {
		return new PageMarksCache( $sharedCache( $services ) );
	},
	'Weboid.Webhook' => static function ( $services ) use ( $sharedCache ) {
		return new Webhook(
			$services->getService( 'Weboid.Settings' ),
			new HttpClient( $services->getHttpRequestFactory() ),
			$sharedCache( $services ),
			LoggerFactory::getInstance( 'Weboid' )
		);
	},
];
