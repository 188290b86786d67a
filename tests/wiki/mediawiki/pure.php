<?php
// The extension's pure classes, a line of JSON in, a line of JSON out; without MediaWiki.
namespace MediaWiki\Extension\Weboid;

spl_autoload_register( static function ( $class ) use ( $argv ) {
	$name = substr( $class, strlen( __NAMESPACE__ ) + 1 );
	require $argv[1] . "/includes/$name.php";
} );

const OWN = [ 'wiki.example' ];
const FRONT = [ 'archive.example' ];
const ARCHIVES = [ 'web.archive.org' ];

function marked( array $asked ): array {
	$marker = new Marker( new Scanner( [ 'noarchive', 'weboid-ignore', 'navbox' ] ), OWN, FRONT, ARCHIVES );
	$html = $asked['html'];
	$started = hrtime( true );
	$links = $marker->links( $html );
	$known = [];
	foreach ( $links as $link ) {
		$known[$link['url']] = $asked['fact'] ?? [
			'kind' => 'copy', 'href' => 'https://archive.example/c', 'copy' => 'https://archive.example/c',
			'date' => '2026-11-20T10:11:12Z', 'group' => 'working', 'dead' => false, 'words' => 'Working',
		];
	}
	$words = static function ( $kind, $url ) {
		return [ 'cached', "cached copy of $url" ];
	};
	$made = Marker::mark( $html, $links, $known, $asked['show'] ?? 'always', $words );
	return [
		'html' => base64_encode( $made ),
		'urls' => array_column( $links, 'url' ),
		'ms' => ( hrtime( true ) - $started ) / 1e6,
	];
}

while ( ( $line = fgets( STDIN ) ) !== false ) {
	$asked = json_decode( $line, true );
	if ( isset( $asked['raw'] ) ) {
		$asked['html'] = base64_decode( $asked['raw'] );
	}
	switch ( $asked['do'] ) {
		case 'mark':
			$said = marked( $asked );
			break;
		case 'read':
			$said = Answers::read( $asked['body'], $asked['urls'], $asked['origins'], $asked['archives'] ?? [] );
			break;
		case 'parts':
			$said = ChangeHooks::parts( $asked['added'], $asked['removed'], $asked['largest'] );
			break;
		case 'portions':
			$said = array_map( 'count', Front::portions( $asked['urls'] ) );
			break;
		case 'host':
			$said = Address::host( $asked['url'] );
			break;
		case 'authority':
			$said = Address::authority( $asked['url'] );
			break;
		case 'rest':
			$said = Sender::rest( $asked['said'], $asked['now'] );
			break;
		case 'sign':
			$said = Webhook::signature( $asked['secret'], $asked['path'], $asked['body'], $asked['now'], $asked['nonce'] );
			break;
	}
	echo json_encode( $said, JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE ), "\n";
}
