<?php
/**
 * Base class of jobs: the core class has a namespace since MediaWiki 1.44.
 *
 * @license GPL-3.0-or-later
 */

namespace MediaWiki\Extension\Weboid;

if ( class_exists( \MediaWiki\JobQueue\Job::class ) ) {
	abstract class JobBase extends \MediaWiki\JobQueue\Job {
	}
} else {
	abstract class JobBase extends \Job {
	}
}
