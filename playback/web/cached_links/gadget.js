/*
 * Adds cached links to the external links of a page, from a Weboid archive.
 *
 * On a wiki, in MediaWiki:Common.js or a separate gadget:
 *   mw.loader.load( 'https://archive.example/links/gadget.js?wiki=dewiki@WMF&show=always' );
 * On any page:
 *   <script src="https://archive.example/links/gadget.js" data-wiki="handbook" defer></script>
 *
 * Settings, as data-NAME, in the query, or in mw.config 'wgWeboid': wiki, page (its number), show (always,
 * dead, never), selector (of links), content (elements with links), lang.
 *
 * Sends one request for all links of a page, without credentials. Only text and validated addresses of the
 * response are used. After a failure the page stays unchanged, and the next request follows after a minute.
 *
 * Licence: GPL-3.0-or-later.
 */
( function () {
	'use strict';

	const mw = window.mw && window.mw.config ? window.mw : null;
	const script = document.currentScript || document.querySelector( 'script[src*="/links/gadget.js"]' );
	if ( !script || !script.src || !window.fetch || window.weboidGadget ) {
		return;
	}
	window.weboidGadget = true; // runs once, even if loaded repeatedly

	const TIMEOUT_MS = 3000;
	const RETRY_MS = 60000;
	const MAX_URLS = 1000;
	const MAX_CHARACTERS = 90000; // of up to three bytes each
	const MAX_WORDS_LENGTH = 300;
	const MAX_POLLS = 15; // after the first request
	const MAX_POLLS_IF_NEW = 5; // while no link is queued yet
	const RETRY_KEY = 'weboid-away';
	const LABELS = { copy: 'cached', queued: 'queued', refused: 'not archived', failed: 'not archived' };
	const GROUPS = [ 'working', 'doubtful', 'unreachable', 'unknown' ];
	const STYLE = `
		.weboid-cached { font-size: 0.75em; line-height: 1; margin-inline-start: 0.2em; white-space: nowrap; }
		.weboid-cached a { color: inherit; opacity: 0.8; text-decoration: underline dotted; background: none; padding: 0; }
		.weboid-cached a:hover, .weboid-cached a:focus { opacity: 1; text-decoration: underline; }
		.weboid-queued a, .weboid-refused a, .weboid-failed a { font-style: italic; }
		a.weboid-link.weboid-unreachable { text-decoration: line-through; }
		a.weboid-unreachable + .weboid-cached.weboid-copy a { opacity: 1; font-weight: bold; }
	`;

	const endpoint = new URL( 'api/cached', script.src ).href;
	const query = new URL( script.src ).searchParams;
	const configured = mw && mw.config.get( 'wgWeboid' ) || {};

	function setting( name, fallback ) {
		const value = script.dataset[ name ] || query.get( name ) || configured[ name ];
		return typeof value === 'string' && value !== '' ? value : fallback;
	}

	const wiki = setting( 'wiki', mw ? mw.config.get( 'wgDBname' ) : null );
	const show = setting( 'show', 'always' );
	const language = setting( 'lang', mw && mw.config.get( 'wgUserLanguage' ) || document.documentElement.lang );
	const selector = setting( 'selector', mw ? 'a.external, a[rel~="mw:ExtLink"]' : 'a[href]' );
	const content = setting( 'content', mw ? '#mw-content-text' : 'body' );

	const answers = new Map(); // by the address as written in the page
	const pending = new Set(); // elements whose links are looked up next
	let polls = 0;
	let timer = 0;

	/* Links. */

	function isExternal( link ) {
		return ( link.protocol === 'https:' || link.protocol === 'http:' ) &&
			link.host !== '' && link.host !== location.host &&
			!link.closest( '.weboid-ignore, .weboid-cached' );
	}

	function linksIn( root ) {
		const links = Array.from( root.querySelectorAll( selector ) );
		return links.filter( ( link ) => link instanceof HTMLAnchorElement && isExternal( link ) );
	}

	function addressOf( link ) {
		return link.getAttribute( 'href' );
	}

	/* Request. */

	function pause() {
		try {
			sessionStorage.setItem( RETRY_KEY, String( Date.now() + RETRY_MS ) );
		} catch ( error ) {
			// Without storage there is no pause.
		}
	}

	function isPaused() {
		try {
			return Number( sessionStorage.getItem( RETRY_KEY ) ) > Date.now();
		} catch ( error ) {
			return false;
		}
	}

	async function request( urls ) {
		const controller = new AbortController();
		const timeout = setTimeout( () => controller.abort(), TIMEOUT_MS );
		const body = { wiki: wiki, urls: urls, lang: languageCode() };
		const page = Number( setting( 'page', mw && mw.config.get( 'wgArticleId' ) ) );
		if ( Number.isSafeInteger( page ) && page > 0 ) {
			body.page_id = page;
		}
		try {
			const response = await fetch( endpoint, {
				method: 'POST',
				body: JSON.stringify( body ), // as text/plain, which needs no CORS preflight
				credentials: 'omit',
				referrerPolicy: 'no-referrer',
				cache: 'no-store',
				signal: controller.signal
			} );
			if ( !response.ok ) {
				throw new Error( response.status );
			}
			return await response.json();
		} finally {
			clearTimeout( timeout );
		}
	}

	function languageCode() {
		const match = /^[A-Za-z][A-Za-z0-9_-]{0,34}$/.exec( language || '' );
		return match ? match[ 0 ] : '';
	}

	/* Response: every value is validated. */

	function webAddress( text ) {
		if ( typeof text !== 'string' ) {
			return '';
		}
		try {
			const url = new URL( text );
			return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : '';
		} catch ( error ) {
			return '';
		}
	}

	function validated( link ) {
		const answer = Object.prototype.hasOwnProperty.call( LABELS, link.answer ) ? link.answer : 'none';
		const isDate = typeof link.date === 'string' && /^\d{4}-\d\d-\d\d(T[\d:]{8}Z)?$/.test( link.date );
		return {
			answer: answer,
			href: answer === 'none' ? '' : webAddress( link.href ),
			copy: answer === 'copy' ? webAddress( link.copy ) : '',
			date: isDate ? link.date : '',
			group: GROUPS.includes( link.group ) ? link.group : 'unknown',
			isDead: link.is_dead === true,
			words: typeof link.words === 'string' ? link.words.slice( 0, MAX_WORDS_LENGTH ) : '',
			label: typeof link.label === 'string' && link.label ? link.label.slice( 0, 40 ) : LABELS[ answer ]
		};
	}

	/** Store the answers; return for how many seconds they are fresh. */
	function store( urls, response ) {
		if ( !response || !Array.isArray( response.links ) || response.links.length !== urls.length ) {
			throw new Error( 'The response is invalid.' );
		}
		response.links.forEach( ( link, index ) => {
			if ( link && typeof link === 'object' ) {
				answers.set( urls[ index ], validated( link ) );
			}
		} );
		const seconds = Number( response.fresh_s );
		return seconds >= 1 && seconds <= 600 ? seconds : 60;
	}

	/* Marks, as specified in docs/how-to/embedding.md. */

	function removeMarks( link ) {
		const next = link.nextElementSibling;
		if ( next && next.classList.contains( 'weboid-cached' ) ) {
			next.remove();
		}
		Array.from( link.classList ).forEach( ( name ) => {
			if ( name.startsWith( 'weboid-' ) ) {
				link.classList.remove( name );
			}
		} );
		[ 'data-originalurl', 'data-versionurl', 'data-versiondate' ].forEach( ( name ) => link.removeAttribute( name ) );
	}

	function mark( link, answer ) {
		removeMarks( link );
		link.classList.add( 'weboid-link', 'weboid-' + answer.group );
		link.setAttribute( 'data-originalurl', addressOf( link ) );
		if ( answer.copy ) {
			link.setAttribute( 'data-versionurl', answer.copy );
			if ( answer.date ) {
				link.setAttribute( 'data-versiondate', answer.date );
			}
		}
		const isShown = show === 'always' || ( show === 'dead' && answer.isDead );
		if ( !isShown || !answer.href ) {
			return;
		}
		const sup = document.createElement( 'sup' );
		const cached = document.createElement( 'a' );
		sup.className = 'weboid-cached weboid-' + answer.answer;
		cached.href = answer.href;
		cached.title = answer.words;
		cached.textContent = answer.label;
		sup.appendChild( cached );
		link.after( sup );
	}

	function markAll( root ) {
		linksIn( root ).forEach( ( link ) => {
			const answer = answers.get( addressOf( link ) );
			if ( answer ) {
				mark( link, answer );
			}
		} );
	}

	function addStyle() {
		try { // not inline: a strict content security policy forbids inline styles
			const sheet = new CSSStyleSheet();
			sheet.replaceSync( STYLE );
			document.adoptedStyleSheets = [ ...document.adoptedStyleSheets, sheet ];
		} catch ( error ) {
			// Old browsers show the links without styles.
		}
	}

	/* Schedule. */

	function urlsToLookUp( roots, isNeeded ) {
		const urls = new Set();
		let characters = 0;
		for ( const link of roots.flatMap( linksIn ) ) {
			const address = addressOf( link );
			if ( urls.has( address ) || !isNeeded( answers.get( address ) ) ) {
				continue;
			}
			characters += address.length + 4;
			if ( urls.size === MAX_URLS || characters > MAX_CHARACTERS ) {
				break;
			}
			urls.add( address );
		}
		return Array.from( urls );
	}

	async function lookUp( roots, isNeeded ) {
		const urls = urlsToLookUp( roots, isNeeded );
		if ( urls.length && !isPaused() ) {
			try {
				schedulePoll( store( urls, await request( urls ) ) );
			} catch ( error ) {
				pause();
			}
		}
		roots.forEach( markAll );
	}

	function schedulePoll( seconds ) {
		const isQueued = Array.from( answers.values() ).some( ( answer ) => answer.answer === 'queued' );
		clearTimeout( timer );
		if ( seconds < 60 && polls < ( isQueued ? MAX_POLLS : MAX_POLLS_IF_NEW ) ) {
			// At growing intervals.
			timer = setTimeout( whenVisible, Math.min( Math.max( seconds, 1.3 ** polls ), 30 ) * 1000, () => {
				polls++;
				lookUp( contents(), ( answer ) => !answer || answer.answer === 'queued' || answer.answer === 'none' );
			} );
		}
	}

	function whenVisible( action ) {
		if ( !document.hidden ) {
			action();
			return;
		}
		document.addEventListener( 'visibilitychange', () => whenVisible( action ), { once: true } );
	}

	function contents() {
		return Array.from( document.querySelectorAll( content ) );
	}

	/** Look up the links of elements; elements that are added at the same time share a request. */
	function add( roots ) {
		if ( !pending.size ) {
			setTimeout( () => {
				const connected = Array.from( pending ).filter( ( root ) => root.isConnected );
				pending.clear();
				lookUp( connected, ( answer ) => !answer );
			} );
		}
		roots.forEach( ( root ) => pending.add( root ) );
	}

	function start() {
		addStyle();
		add( contents() );
		if ( mw && mw.hook ) {
			mw.hook( 'wikipage.content' ).add( ( $content ) => add( Array.from( $content || [] ) ) );
			mw.hook( 'postEdit' ).add( () => {
				answers.clear();
				polls = 0;
				add( contents() );
			} );
		}
	}

	if ( document.readyState === 'loading' ) {
		document.addEventListener( 'DOMContentLoaded', start );
	} else {
		start();
	}
}() );
