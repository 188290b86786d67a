<?php
// The wiki under PHP's own server: entry points run, pictures and scripts are files, the rest 404.
define( 'MW_CONFIG_FILE', getenv( 'WIKI_FOLDER' ) . '/LocalSettings.php' );
$code = getenv( 'WIKI_CODE' );
$path = rawurldecode( parse_url( $_SERVER['REQUEST_URI'], PHP_URL_PATH ) ?: '/' );
if ( ( $_SERVER['HTTP_X_FORWARDED_PROTO'] ?? '' ) === 'https' ) {
	$_SERVER['HTTPS'] = 'on';
}
if ( preg_match( '#^/(index|api|load|rest|thumb|opensearch_desc)\.php(/|$)#', $path, $found ) ) {
	$entry = $found[1] . '.php';
} elseif ( $path === '/' || strncmp( $path, '/wiki/', 6 ) === 0 ) {
	$entry = 'index.php';
} elseif ( strncmp( $path, '/images/', 8 ) === 0 && strpos( $path, '..' ) === false ) {
	$file = getenv( 'WIKI_FOLDER' ) . $path;
	if ( !is_file( $file ) ) {
		http_response_code( 404 );
		return true;
	}
	header( 'Content-Type: ' . ( mime_content_type( $file ) ?: 'application/octet-stream' ) );
	header( 'Content-Length: ' . filesize( $file ) );
	readfile( $file );
	return true;
} elseif ( preg_match( '#^/(resources|skins|extensions)/.*\.(js|css|less|png|svg|gif|jpe?g|ico|woff2?|ttf|json|map)$#', $path ) ) {
	return false;
} else {
	http_response_code( 404 );
	echo '<!DOCTYPE html><title>Not found</title><p>No such page.</p>';
	return true;
}
$_SERVER['SCRIPT_NAME'] = "/$entry";
$_SERVER['PHP_SELF'] = "/$entry";
$_SERVER['SCRIPT_FILENAME'] = "$code/$entry";
chdir( $code );
require "$code/$entry";
