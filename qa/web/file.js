/*
 * A report of checks that is one file: the list, its filters and pages, single results, and marks.
 *
 * Rows are arrays (columns: qa/web/static_report.py), so that a hundred thousand of them load at once.
 * Content from the web is only ever set as text, or as a URL that was validated first. Nothing is
 * requested: pictures are embedded in the file.
 */
( function () {
	'use strict';

	const PAGE_SIZE = 50;
	const VERDICTS = [ 'broken', 'doubtful', 'good', 'unchecked' ];
	const CLASSES = [ 'broken', 'doubtful', 'fine', 'unchecked' ];
	const [ ID, LEVEL, URL_, HOST, CAPTURED, CHECKED, VERDICT, SCORE, PICTURE, TEXT, FILES, FAULTS, CLASS, REVIEW,
		REPAIR, REASON, LOST, NOTE, BY, PICTURES ] = Array.from( { length: 20 }, ( _, place ) => place );
	const { say, kept } = window.weboidQuality;
	const read = ( id ) => JSON.parse( document.getElementById( id ).textContent );
	const words = read( 'words' );
	const strings = read( 'strings' );
	const rows = read( 'rows' );
	const find = ( name, inside ) => ( inside || document ).querySelector( `[data-${ name }]` );
	const storeName = `weboid-marks-${ words.report }`;
	const marks = readMarks();
	let chosen = rows;
	let page = 0;
	let current = -1; // place in `chosen`
	let isSaved = true;

	function readMarks() {
		try {
			return new Map( JSON.parse( kept( storeName ) || '[]' ) );
		} catch ( error ) {
			return new Map();
		}
	}

	const keyOf = ( row ) => `${ row[ ID ] }/${ strings[ row[ LEVEL ] ] }`;
	const markOf = ( row ) => marks.get( keyOf( row ) ) || {};
	const byKey = new Map( rows.map( ( row ) => [ keyOf( row ), row ] ) );

	/** Letters that turn or hide others, as a mark that something was there. */
	function plain( text ) {
		return text.replace( /[\p{Cc}\p{Cf}]/gu, '\ufffd' );
	}

	function verdictOf( row ) {
		const mark = markOf( row ).verdict;
		return mark ? VERDICTS.indexOf( mark ) : row[ REVIEW ] >= 0 ? row[ REVIEW ] : row[ VERDICT ];
	}

	const shareOf = ( score ) => score < 0 ? '-' : String( Math.floor( score / 10 ) );
	const moment = ( seconds ) => new Date( seconds * 1000 ).toISOString().slice( 0, 19 ).replace( 'T', ' ' ) + ' UTC';

	function make( tag, name, text ) {
		const made = document.createElement( tag );
		made.className = name;
		made.textContent = text;
		return made;
	}

	const verdictMark = ( verdict ) => make( 'span', `verdict ${ CLASSES[ verdict ] }`, words.verdicts[ verdict ] );

	function faultList( bits ) {
		const list = make( 'ul', 'faults', '' );
		list.setAttribute( 'aria-label', words.wrong );
		words.faults.forEach( ( name, place ) => {
			if ( bits & ( 1 << place ) ) {
				list.append( make( 'li', '', name ) );
			}
		} );
		return bits ? [ list ] : [];
	}

	/** The picture's data, empty when the file has none, or not yet. */
	function pictureOf( row, kind ) {
		const place = row[ PICTURES ];
		const held = place >= 0 && document.getElementById( `p${ place }-${ kind }` );
		return held ? `data:image/webp;base64,${ held.textContent }` : '';
	}

	/* ---- the list ---- */

	function sift() {
		const form = find( 'sift' );
		const given = Object.fromEntries( new FormData( form ) );
		const host = ( given.host || '' ).trim().toLowerCase();
		const verdict = VERDICTS.indexOf( given.verdict );
		const fault = given.fault ? 1 << Number( given.fault ) : 0;
		const named = String( given.below || '' ).replace( ',', '.' );
		const limit = named.endsWith( '%' ) ? parseFloat( named ) * 10 : parseFloat( named ) * 1000;
		chosen = rows.filter( ( row ) => ( verdict < 0 || verdictOf( row ) === verdict ) &&
			( !host || strings[ row[ HOST ] ] === host || strings[ row[ HOST ] ].endsWith( `.${ host }` ) ) &&
			( !fault || row[ FAULTS ] & fault ) &&
			( !given.class || strings[ row[ CLASS ] ] === given.class ) &&
			( !given.level || strings[ row[ LEVEL ] ] === given.level ) &&
			( !( limit >= 0 ) || row[ SCORE ] < limit ) &&
			( !given.unreviewed || row[ REVIEW ] < 0 && !markOf( row ).verdict ) );
		page = 0;
	}

	function drawTotals() {
		const counts = [ 0, 0, 0, 0 ];
		for ( const row of chosen ) {
			counts[ verdictOf( row ) ]++;
		}
		let at = 0;
		find( 'bar' ).querySelectorAll( 'rect' ).forEach( ( bar, place ) => {
			const wide = chosen.length ? 1000 * counts[ place ] / chosen.length : 0;
			bar.setAttribute( 'x', at.toFixed( 2 ) );
			bar.setAttribute( 'width', wide.toFixed( 2 ) );
			at += wide;
		} );
		find( 'counts' ).replaceChildren( ...counts.map( ( count, place ) => {
			const item = document.createElement( 'li' );
			item.append( verdictMark( place ), ` ${ count.toLocaleString( words.language ) }` );
			return item;
		} ) );
	}

	function drawRow( row ) {
		const made = find( 'row-template' ).content.cloneNode( true ).firstElementChild;
		const verdict = verdictOf( row );
		made.className = CLASSES[ verdict ];
		made.querySelectorAll( '.thumbs > span' ).forEach( ( box, place ) => {
			const source = pictureOf( row, place ? 'shown-small' : 'seen-small' );
			if ( source ) {
				const image = document.createElement( 'img' );
				Object.assign( image, { src: source, alt: '' } );
				box.replaceChildren( image );
			}
		} );
		const link = made.querySelector( 'h2 a' );
		link.textContent = plain( row[ URL_ ] );
		link.href = `#${ keyOf( row ) }`;
		find( 'verdict', made ).append( verdictMark( verdict ), ...faultList( row[ FAULTS ] ) );
		const mark = markOf( row );
		const told = [ mark.verdict || row[ REVIEW ] >= 0 ? words.judged : '', mark.recrawl ? words.recrawl : words.repairs[ row[ REPAIR ] ] ];
		told.filter( Boolean ).forEach( ( text ) => find( 'verdict', made ).append( make( 'span', '', text ) ) );
		find( 'why', made ).textContent = plain( strings[ row[ REASON ] ] );
		find( 'facts', made ).append( ...factsOf( row ) );
		made.querySelector( 'strong' ).textContent = shareOf( row[ SCORE ] );
		return made;
	}

	function factsOf( row ) {
		const level = strings[ row[ LEVEL ] ];
		return [ words.levels[ level ] || level, words.captured.replace( '{}', moment( row[ CAPTURED ] ) ),
			words.checked.replace( '{}', moment( row[ CHECKED ] ) ) ].map( ( text ) => make( 'span', '', text ) );
	}

	function drawList() {
		const pages = Math.max( Math.ceil( chosen.length / PAGE_SIZE ), 1 );
		page = Math.max( 0, Math.min( page, pages - 1 ) );
		const from = page * PAGE_SIZE;
		drawTotals();
		find( 'rows' ).replaceChildren( ...chosen.slice( from, from + PAGE_SIZE ).map( drawRow ) );
		find( 'none' ).hidden = chosen.length > 0;
		find( 'pager' ).hidden = pages === 1;
		find( 'earlier' ).disabled = page === 0;
		find( 'later' ).disabled = page === pages - 1;
		find( 'place' ).textContent = words.place.replace( '{}', ( page + 1 ).toLocaleString( words.language ) )
			.replace( '{}', pages.toLocaleString( words.language ) );
	}

	/* ---- one result ---- */

	function linkTo( link, address ) {
		link.hidden = !address;
		if ( address ) {
			link.href = address;
		} else {
			link.removeAttribute( 'href' );
		}
	}

	/** The page's address when it may become a link. */
	function liveOf( row ) {
		try {
			const parsed = new URL( row[ URL_ ] );
			return /^https?:$/.test( parsed.protocol ) && !parsed.username && !parsed.password ? parsed.href : '';
		} catch ( error ) {
			return '';
		}
	}

	function drawScores( row ) {
		const values = [ row[ SCORE ], row[ PICTURE ], row[ TEXT ], row[ FILES ] ];
		find( 'scores' ).className = `grid-of-scores ${ CLASSES[ row[ VERDICT ] ] }`;
		find( 'scores' ).querySelectorAll( 'dd' ).forEach( ( place, number ) => {
			const meter = place.querySelector( 'meter' );
			place.querySelector( 'span' ).textContent = shareOf( values[ number ] );
			meter.hidden = values[ number ] < 0;
			meter.value = Math.max( values[ number ], 0 ) / 1000;
		} );
	}

	function drawLook( row ) {
		const look = find( 'look' );
		for ( const kind of [ 'seen', 'shown', 'heat' ] ) {
			const image = look.querySelector( `.${ kind } img` );
			const source = pictureOf( row, kind );
			image.hidden = !source;
			image.nextElementSibling.hidden = Boolean( source );
			if ( source ) {
				image.src = source;
			} else {
				image.removeAttribute( 'src' );
			}
		}
		if ( look.refresh ) {
			look.refresh();
		}
	}

	function drawMark( row ) {
		const mark = markOf( row );
		const form = find( 'judging' );
		const verdict = verdictOf( row );
		const isJudged = mark.verdict || row[ REVIEW ] >= 0 && mark.verdict !== '';
		form.querySelectorAll( 'button[data-act]' ).forEach( ( button ) => {
			const down = { good: isJudged && verdict === 2, bad: isJudged && verdict === 0, recrawl: Boolean( mark.recrawl ) };
			if ( button.dataset.act !== 'clear' ) {
				button.setAttribute( 'aria-pressed', String( Boolean( down[ button.dataset.act ] ) ) );
			}
		} );
		form.elements.note.value = mark.note !== undefined ? mark.note : strings[ row[ NOTE ] ];
		const said = mark.verdict ? words.marked.replace( '{}', words.verdicts[ verdict ] ) :
			row[ REVIEW ] >= 0 ? words.said.replace( '{}', words.verdicts[ row[ REVIEW ] ] )
				.replace( '{}', strings[ row[ BY ] ] || words.somebody ) : words.nobody;
		find( 'standing' ).textContent = [ said, mark.recrawl ? words.recrawl : words.repairs[ row[ REPAIR ] ] ].join( ' ' );
		find( 'one-verdict' ).replaceChildren( verdictMark( verdict ), ...faultList( row[ FAULTS ] ), ...factsOf( row ) );
	}

	function drawOne( row ) {
		current = chosen.indexOf( row );
		find( 'one-url' ).textContent = plain( row[ URL_ ] );
		find( 'one-why' ).textContent = plain( strings[ row[ REASON ] ] );
		drawScores( row );
		drawMark( row );
		drawLook( row );
		const near = ( way ) => current >= 0 && chosen[ current + way ] ? `#${ keyOf( chosen[ current + way ] ) }` : '';
		linkTo( find( 'before' ), near( -1 ) );
		linkTo( find( 'behind' ), near( 1 ) );
		linkTo( find( 'live' ), liveOf( row ) );
		const stamp = moment( row[ CAPTURED ] ).replace( /\D/g, '' );
		linkTo( find( 'copy' ), words.origin && liveOf( row ) && `${ words.origin }/page/${ stamp }/${ row[ URL_ ] }` );
		linkTo( find( 'result' ), words.origin && `${ words.origin }/quality/${ keyOf( row ) }` );
		const lost = row[ LOST ] || [];
		find( 'lost' ).hidden = !lost.length;
		find( 'lost' ).querySelector( 'tbody' ).replaceChildren( ...lost.map( ( [ url, why ] ) => {
			const line = document.createElement( 'tr' );
			const cell = make( 'td', 'url', plain( url ) );
			cell.dir = 'ltr';
			line.append( cell, make( 'td', '', plain( why ) ) );
			return line;
		} ) );
		say( `${ words.verdicts[ verdictOf( row ) ] }. ${ plain( row[ URL_ ] ) }` );
	}

	function show() {
		const row = byKey.get( location.hash.slice( 1 ) );
		find( 'view-list' ).hidden = Boolean( row );
		find( 'view-one' ).hidden = !row;
		if ( row ) {
			drawOne( row );
			window.scrollTo( 0, 0 );
		} else {
			if ( current >= 0 ) {
				page = Math.floor( current / PAGE_SIZE );
			}
			drawList();
			const again = find( 'rows' ).children[ current - page * PAGE_SIZE ];
			if ( current >= 0 && again ) {
				again.querySelector( 'a' ).focus();
			}
		}
	}

	/* ---- marks ---- */

	function mark( act ) {
		const row = byKey.get( location.hash.slice( 1 ) );
		const form = find( 'judging' );
		const now = { ...markOf( row ) };
		if ( act === 'recrawl' ) {
			now.recrawl = !now.recrawl;
		} else {
			now.verdict = { good: 'good', bad: 'broken', clear: '' }[ act ];
		}
		now.note = form.elements.note.value.slice( 0, 500 );
		now.at = new Date().toISOString();
		marks.set( keyOf( row ), now );
		isSaved = false;
		kept( storeName, JSON.stringify( [ ...marks ] ) );
		drawMark( row );
		drawSaving();
		say( find( 'standing' ).textContent );
		if ( form.elements.onward.checked && act !== 'recrawl' && !find( 'behind' ).hidden ) {
			find( 'behind' ).click();
		}
	}

	function drawSaving() {
		document.querySelectorAll( '[data-count]' ).forEach( ( place ) => {
			const many = [ ...marks.values() ].filter( ( each ) => place.dataset.count === 'marks' || each.recrawl ).length;
			place.textContent = String( many );
			place.closest( 'button' ).disabled = !many;
		} );
	}

	function give( name, type, text ) {
		const link = document.createElement( 'a' );
		link.href = window.URL.createObjectURL( new Blob( [ text ], { type } ) );
		link.download = name;
		document.body.append( link );
		link.click();
		link.remove();
	}

	function giveMarks() {
		const by = find( 'by' ).value.trim().slice( 0, 100 );
		const given = [ ...marks ].map( ( [ key, each ] ) => {
			const [ pageId, level ] = key.split( '/' );
			return {
				page_id: pageId, level, verdict: each.verdict === undefined ? null : each.verdict,
				recrawl: Boolean( each.recrawl ), note: each.note || '', at: each.at
			};
		} );
		give( 'weboid-marks.json', 'application/json', JSON.stringify( { weboid_marks: 1, report: words.report, by, marks: given }, null, 1 ) );
		isSaved = true;
	}

	function giveUrls() {
		const urls = [ ...marks ].filter( ( [ key, each ] ) => each.recrawl && byKey.has( key ) )
			.map( ( [ key ] ) => byKey.get( key )[ URL_ ] ).filter( ( url ) => !/[\r\n]/.test( url ) );
		give( 'weboid-recrawl.txt', 'text/plain', [ ...new Set( urls ) ].join( '\n' ) + '\n' );
	}

	function start() {
		find( 'sift' ).addEventListener( 'submit', ( event ) => {
			event.preventDefault();
			current = -1;
			sift();
			drawList();
			say( words.found.replace( '{}', chosen.length.toLocaleString( words.language ) ) );
		} );
		const step = ( way ) => {
			page += way;
			current = -1;
			drawList();
			window.scrollTo( 0, 0 );
			say( find( 'place' ).textContent );
		};
		find( 'earlier' ).addEventListener( 'click', () => step( -1 ) );
		find( 'later' ).addEventListener( 'click', () => step( 1 ) );
		find( 'judging' ).addEventListener( 'submit', ( event ) => event.preventDefault() );
		document.querySelectorAll( '[data-act]' ).forEach( ( button ) =>
			button.addEventListener( 'click', () => mark( button.dataset.act ) ) );
		find( 'give-marks' ).addEventListener( 'click', giveMarks );
		find( 'give-urls' ).addEventListener( 'click', giveUrls );
		window.addEventListener( 'hashchange', show );
		window.addEventListener( 'beforeunload', ( event ) => {
			if ( !isSaved ) {
				event.preventDefault();
			}
		} );
		// Pictures stand behind everything else: what is shown first may wait for its own.
		document.addEventListener( 'DOMContentLoaded', show );
		drawSaving();
		show();
	}

	start();
}() );
