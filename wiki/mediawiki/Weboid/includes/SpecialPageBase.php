<?php
/**
 * Base class of special pages: the core class has a namespace since MediaWiki 1.41.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

if ( class_exists( \MediaWiki\SpecialPage\SpecialPage::class ) ) {
	abstract class SpecialPageBase extends \MediaWiki\SpecialPage\SpecialPage {
	}
} else {
	abstract class SpecialPageBase extends \SpecialPage {
	}
}
