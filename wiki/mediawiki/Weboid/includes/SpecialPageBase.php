<?php
/**
 * Base class of special pages: the core class has a namespace since MediaWiki 1.41.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

if ( version_compare( MW_VERSION, '1.41', '>=' ) ) {
	abstract class SpecialPageBase extends \MediaWiki\SpecialPage\SpecialPage {
	}
} else {
	abstract class SpecialPageBase extends \SpecialPage {
	}
}
