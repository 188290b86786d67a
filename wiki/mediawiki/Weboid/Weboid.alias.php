<?php
/**
 * Names of the special pages.
 *
 * @license GPL-3.0-or-later
 */

$specialPageAliases = [];

/** English */
$specialPageAliases['en'] = [
	'WeboidLinks' => [ 'WeboidLinks' ],
];

/** German (Deutsch) */
$specialPageAliases['de'] = [
	'WeboidLinks' => [ 'Weboid-Weblinks' ],
];
