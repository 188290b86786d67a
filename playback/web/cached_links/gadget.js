/*
 * Cached copies beside the external links of a page, out of a Weboid archive.
 *
 * On a wiki, in MediaWiki:Common.js or a gadget of its own:
 *   mw.loader.load( 'https://archive.example/links/gadget.js?wiki=dewiki@WMF&show=always' );
 * On any page:
 *   <script src="https://archive.example/links/gadget.js" data-wiki="handbook" defer></script>
 *
 * What it takes, as data-NAME, in the query, or in mw.config 'wgWeboid': wiki, page (its number), show
 * (always, dead, never), selector (of links), content (of what is looked through), lang.
 *
 * One question for all links of a page, without credentials. What is answered is only ever text and
 * checked addresses; a front that does not answer changes nothing and is left alone for a minute.
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
	window.weboidGadget = true; // once, however often it is loaded

	const TIMEOUT_MS = 3000;
	const AWAY_MS = 60000;
	const MOST_URLS = 1000;
	const MOST_CHARACTERS = 90000; // of three bytes each at most
	const MOST_WORDS = 300;
	const QUEUED_LOOKS = 15; // after the first, while something is queued
	const NEW_LOOKS = 5; // while nobody has queued it yet
	const AWAY_KEY = 'weboid-away';
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
	const given = mw && mw.config.get( 'wgWeboid' ) || {};

	function setting( name, fallback ) {
		const said = script.dataset[ name ] || query.get( name ) || given[ name ];
		return typeof said === 'string' && said !== '' ? said : fallback;
	}

	const wiki = setting( 'wiki', mw ? mw.config.get( 'wgDBname' ) : null );
	const show = setting( 'show', 'always' );
	const language = setting( 'lang', mw && mw.config.get( 'wgUserLanguage' ) || document.documentElement.lang );
	const selector = setting( 'selector', mw ? 'a.external, a[rel~="mw:ExtLink"]' : 'a[href]' );
	const content = setting( 'content', mw ? '#mw-content-text' : 'body' );

	const known = new Map(); // what was answered, by the address as it stands in the page
	const waiting = new Set(); // contents that are to be looked through
	let looks = 0; // that were taken again
	let timer = 0;

	/* Which links. */

	function isAsked( link ) {
		return ( link.protocol === 'https:' || link.protocol === 'http:' ) &&
			link.host !== '' && link.host !== location.host &&
			!link.closest( '.weboid-ignore, .weboid-cached' );
	}

	function linksIn( root ) {
		const found = Array.from( root.querySelectorAll( selector ) );
		return found.filter( ( link ) => link instanceof HTMLAnchorElement && isAsked( link ) );
	}

	function addressOf( link ) {
		return link.getAttribute( 'href' );
	}

	/* The question. */

	function isAway( until ) {
		try {
			if ( until ) {
				sessionStorage.setItem( AWAY_KEY, String( until ) );
			}
			return Number( sessionStorage.getItem( AWAY_KEY ) ) > Date.now();
		} catch ( error ) {
			return false; // no storage here: then nothing is remembered
		}
	}

	async function ask( urls ) {
		const controller = new AbortController();
		const timeout = setTimeout( () => controller.abort(), TIMEOUT_MS );
		const question = { wiki: wiki, urls: urls, lang: languageCode() };
		const page = Number( setting( 'page', mw && mw.config.get( 'wgArticleId' ) ) );
		if ( Number.isSafeInteger( page ) && page > 0 ) {
			question.page_id = page;
		}
		try {
			const response = await fetch( endpoint, {
				method: 'POST',
				body: JSON.stringify( question ), // as text/plain, which asks for no leave first
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

	/* The answer: nothing in it is believed. */

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

	function checked( told ) {
		const answer = Object.prototype.hasOwnProperty.call( LABELS, told.answer ) ? told.answer : 'none';
		const isDate = typeof told.date === 'string' && /^\d{4}-\d\d-\d\d(T[\d:]{8}Z)?$/.test( told.date );
		return {
			answer: answer,
			href: answer === 'none' ? '' : webAddress( told.href ),
			copy: answer === 'copy' ? webAddress( told.copy ) : '',
			date: isDate ? told.date : '',
			group: GROUPS.includes( told.group ) ? told.group : 'unknown',
			isDead: told.is_dead === true,
			words: typeof told.words === 'string' ? told.words.slice( 0, MOST_WORDS ) : '',
			label: typeof told.label === 'string' && told.label ? told.label.slice( 0, 40 ) : LABELS[ answer ]
		};
	}

	function note( urls, told ) {
		if ( !told || !Array.isArray( told.links ) || told.links.length !== urls.length ) {
			throw new Error( 'This is no answer.' );
		}
		told.links.forEach( ( each, place ) => {
			if ( each && typeof each === 'object' ) {
				known.set( urls[ place ], checked( each ) );
			}
		} );
		const seconds = Number( told.fresh_s );
		return seconds >= 1 && seconds <= 600 ? seconds : 60;
	}

	/* What is shown: docs/how-to/embedding.md says it for all who show it. */

	function clear( link ) {
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

	function draw( link, told ) {
		clear( link );
		link.classList.add( 'weboid-link', 'weboid-' + told.group );
		link.setAttribute( 'data-originalurl', addressOf( link ) );
		if ( told.copy ) {
			link.setAttribute( 'data-versionurl', told.copy );
			if ( told.date ) {
				link.setAttribute( 'data-versiondate', told.date );
			}
		}
		const isShown = show === 'always' || ( show === 'dead' && told.isDead );
		if ( !isShown || !told.href ) {
			return;
		}
		const mark = document.createElement( 'sup' );
		const lead = document.createElement( 'a' );
		mark.className = 'weboid-cached weboid-' + told.answer;
		lead.href = told.href;
		lead.title = told.words;
		lead.textContent = told.label;
		mark.appendChild( lead );
		link.after( mark );
	}

	function drawAll( root ) {
		linksIn( root ).forEach( ( link ) => {
			const told = known.get( addressOf( link ) );
			if ( told ) {
				draw( link, told );
			}
		} );
	}

	function addStyle() {
		try { // no inline style: a strict policy of the page's forbids these, and allows this
			const sheet = new CSSStyleSheet();
			sheet.replaceSync( STYLE );
			document.adoptedStyleSheets = [ ...document.adoptedStyleSheets, sheet ];
		} catch ( error ) {
			// An old browser: the links are there without it.
		}
	}

	/* When. */

	function wanted( roots, isWanted ) {
		const urls = new Set();
		let characters = 0;
		for ( const link of roots.flatMap( linksIn ) ) {
			const address = addressOf( link );
			if ( urls.has( address ) || !isWanted( known.get( address ) ) ) {
				continue;
			}
			characters += address.length + 4;
			if ( urls.size === MOST_URLS || characters > MOST_CHARACTERS ) {
				break;
			}
			urls.add( address );
		}
		return Array.from( urls );
	}

	async function look( roots, isWanted ) {
		const urls = wanted( roots, isWanted );
		if ( urls.length && !isAway() ) {
			try {
				again( note( urls, await ask( urls ) ) );
			} catch ( error ) {
				isAway( Date.now() + AWAY_MS );
			}
		}
		roots.forEach( drawAll );
	}

	function again( seconds ) {
		const answers = Array.from( known.values(), ( told ) => told.answer );
		const most = answers.includes( 'queued' ) ? QUEUED_LOOKS : NEW_LOOKS;
		clearTimeout( timer );
		if ( seconds < 60 && looks < most ) {
			// Longer each time: what takes long is seldom ready within the next second.
			timer = setTimeout( onceVisible, Math.min( Math.max( seconds, 1.3 ** looks ), 30 ) * 1000, () => {
				looks++;
				look( everywhere(), ( told ) => !told || told.answer === 'queued' || told.answer === 'none' );
			} );
		}
	}

	function onceVisible( then ) {
		if ( !document.hidden ) {
			then();
			return;
		}
		document.addEventListener( 'visibilitychange', () => onceVisible( then ), { once: true } );
	}

	function everywhere() {
		return Array.from( document.querySelectorAll( content ) );
	}

	// Contents that come at once are asked for in one question.
	function later( roots ) {
		if ( !waiting.size ) {
			setTimeout( () => {
				const now = Array.from( waiting ).filter( ( root ) => root.isConnected );
				waiting.clear();
				look( now, ( told ) => !told );
			} );
		}
		roots.forEach( ( root ) => waiting.add( root ) );
	}

	function begin() {
		addStyle();
		later( everywhere() );
		if ( mw && mw.hook ) {
			mw.hook( 'wikipage.content' ).add( ( $content ) => later( Array.from( $content || [] ) ) );
			mw.hook( 'postEdit' ).add( () => {
				known.clear();
				looks = 0;
				later( everywhere() );
			} );
		}
	}

	if ( document.readyState === 'loading' ) {
		document.addEventListener( 'DOMContentLoaded', begin );
	} else {
		begin();
	}
}() );
