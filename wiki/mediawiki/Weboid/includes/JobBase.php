<?php
/**
 * Base class of jobs: the core class has a namespace since MediaWiki 1.44.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

// Not class_exists(): the autoloader of 1.39 includes the file of the global class once more, a fatal error.
if ( version_compare( MW_VERSION, '1.44', '>=' ) ) {
	abstract class JobBase extends \MediaWiki\JobQueue\Job {
	}
} else {
	abstract class JobBase extends \Job {
	}
}
