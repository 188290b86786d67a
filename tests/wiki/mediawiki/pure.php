<?php
// Calls the extension's classes that do not use MediaWiki: reads and writes lines of JSON.
namespace MediaWiki\Extension\Weboid;

spl_autoload_register( static function ( $class ) use ( $argv ) {
	$name = substr( $class, strlen( __NAMESPACE__ ) + 1 );
	require $argv[1] . "/includes/$name.php";
} );

const OWN_HOSTS = [ 'wiki.example' ];
const FRONT_HOSTS = [ 'archive.example' ];
const ARCHIVE_HOSTS = [ 'web.archive.org' ];

function markHtml( array $request ): array {
	$marker = new Marker( new Scanner( [ 'noarchive', 'weboid-ignore', 'navbox' ] ), OWN_HOSTS, FRONT_HOSTS, ARCHIVE_HOSTS );
	$html = $request['html'];
	$started = hrtime( true );
	$links = $marker->links( $html );
	$answers = [];
	foreach ( $links as $link ) {
		$answers[$link['url']] = $request['answer'] ?? [
			'kind' => 'copy', 'href' => 'https://archive.example/c', 'copy' => 'https://archive.example/c',
			'date' => '2026-11-20T10:11:12Z', 'group' => 'working', 'dead' => false, 'words' => 'Working',
		];
	}
	$labels = static function ( $kind, $url ) {
		return [ 'cached', "cached copy of $url" ];
	};
	$marked = Marker::mark( $html, $links, $answers, $request['show'] ?? 'always', $labels );
	return [
		'html' => base64_encode( $marked ),
		'urls' => array_column( $links, 'url' ),
		'ms' => ( hrtime( true ) - $started ) / 1e6,
	];
}

while ( ( $line = fgets( STDIN ) ) !== false ) {
	$request = json_decode( $line, true );
	if ( isset( $request['raw'] ) ) {
		$request['html'] = base64_decode( $request['raw'] );
	}
	switch ( $request['function'] ) {
		case 'mark':
			$result = markHtml( $request );
			break;
		case 'parse':
			$result = LookupResponse::parse(
				$request['body'], $request['urls'], $request['origins'], $request['archives'] ?? []
			);
			break;
		case 'split':
			$result = ChangeHooks::splitChanges( $request['added'], $request['removed'], $request['max_bytes'] );
			break;
		case 'batches':
			$result = array_map( 'count', Front::batches( $request['urls'] ) );
			break;
		case 'host':
			$result = Url::host( $request['url'] );
			break;
		case 'authority':
			$result = Url::authority( $request['url'] );
			break;
		case 'retry_after':
			$result = HttpClient::parseRetryAfter( $request['header'], $request['now'] );
			break;
		case 'sign':
			$result = Webhook::signature(
				$request['secret'], $request['path'], $request['body'], $request['now'], $request['nonce']
			);
			break;
	}
	echo json_encode( $result, JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE ), "\n";
}
