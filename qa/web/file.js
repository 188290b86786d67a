/*
 * A report of playback checks in a single file: list with filters and pages, single results, reviews.
 *
 * Rows are arrays (columns: qa/web/static_report.py), so that a hundred thousand of them load quickly.
 * Content from the web is only set as text, or as a validated URL. Nothing is requested: pictures are
 * embedded in the file.
 */
( function () {
	'use strict';

	const PAGE_SIZE = 50;
	const VERDICTS = [ 'broken', 'doubtful', 'good', 'unchecked' ];
	const CLASSES = [ 'broken', 'doubtful', 'fine', 'unchecked' ];
	const [ ID, LEVEL, URL_, HOST, CAPTURED, CHECKED, VERDICT, SCORE, PICTURE, TEXT, FILES, FAULTS, CLASS, REVIEW,
		REPAIR, REASON, LOST, NOTE, BY, PICTURES ] = Array.from( { length: 20 }, ( _, place ) => place );
	const { announce, stored } = window.weboidQuality;
	const read = ( id ) => JSON.parse( document.getElementById( id ).textContent );
	const words = read( 'words' );
	const strings = read( 'strings' );
	const rows = read( 'rows' );
	const find = ( name, inside ) => ( inside || document ).querySelector( `[data-${ name }]` );
	const storeName = `weboid-marks-${ words.report }`;
	const marks = readMarks();
	let filtered = rows;
	let page = 0;
	let current = -1; // index in `filtered`
	let isSaved = true;

	function readMarks() {
		try {
			return new Map( JSON.parse( stored( storeName ) || '[]' ) );
		} catch ( error ) {
			return new Map();
		}
	}

	const keyOf = ( row ) => `${ row[ ID ] }/${ strings[ row[ LEVEL ] ] }`;
	const markOf = ( row ) => marks.get( keyOf( row ) ) || {};
	const byKey = new Map( rows.map( ( row ) => [ keyOf( row ), row ] ) );

	/** Replace control and format characters, which can reorder or hide others. */
	function plain( text ) {
		return text.replace( /[\p{Cc}\p{Cf}]/gu, '\ufffd' );
	}

	function verdictOf( row ) {
		const mark = markOf( row ).verdict;
		return mark ? VERDICTS.indexOf( mark ) : row[ REVIEW ] >= 0 ? row[ REVIEW ] : row[ VERDICT ];
	}

	const shareOf = ( score ) => score < 0 ? '-' : String( Math.floor( score / 10 ) );
	const moment = ( seconds ) => new Date( seconds * 1000 ).toISOString().slice( 0, 19 ).replace( 'T', ' ' ) + ' UTC';

	function element( tag, name, text ) {
		const created = document.createElement( tag );
		created.className = name;
		created.textContent = text;
		return created;
	}

	const verdictMark = ( verdict ) => element( 'span', `verdict ${ CLASSES[ verdict ] }`, words.verdicts[ verdict ] );

	function faultList( bits ) {
		const list = element( 'ul', 'faults', '' );
		list.setAttribute( 'aria-label', words.faultsTitle );
		words.faults.forEach( ( name, index ) => {
			if ( bits & ( 1 << index ) ) {
				list.append( element( 'li', '', name ) );
			}
		} );
		return bits ? [ list ] : [];
	}

	/** Return the data: URL of a picture; '' if the file has none, or has not loaded it yet. */
	function pictureOf( row, kind ) {
		const index = row[ PICTURES ];
		const data = index >= 0 && document.getElementById( `p${ index }-${ kind }` );
		return data ? `data:image/webp;base64,${ data.textContent }` : '';
	}

	/* ---- the list ---- */

	function applyFilters() {
		const form = find( 'sift' );
		const fields = Object.fromEntries( new FormData( form ) );
		const host = ( fields.host || '' ).trim().toLowerCase();
		const verdict = VERDICTS.indexOf( fields.verdict );
		const fault = fields.fault ? 1 << Number( fields.fault ) : 0;
		const below = String( fields.below || '' ).replace( ',', '.' );
		const limit = below.endsWith( '%' ) ? parseFloat( below ) * 10 : parseFloat( below ) * 1000;
		filtered = rows.filter( ( row ) => ( verdict < 0 || verdictOf( row ) === verdict ) &&
			( !host || strings[ row[ HOST ] ] === host || strings[ row[ HOST ] ].endsWith( `.${ host }` ) ) &&
			( !fault || row[ FAULTS ] & fault ) &&
			( !fields.class || strings[ row[ CLASS ] ] === fields.class ) &&
			( !fields.level || strings[ row[ LEVEL ] ] === fields.level ) &&
			( !( limit >= 0 ) || row[ SCORE ] < limit ) &&
			( !fields.unreviewed || row[ REVIEW ] < 0 && !markOf( row ).verdict ) );
		page = 0;
	}

	function drawTotals() {
		const counts = [ 0, 0, 0, 0 ];
		for ( const row of filtered ) {
			counts[ verdictOf( row ) ]++;
		}
		let x = 0;
		find( 'bar' ).querySelectorAll( 'rect' ).forEach( ( bar, index ) => {
			const width = filtered.length ? 1000 * counts[ index ] / filtered.length : 0;
			bar.setAttribute( 'x', x.toFixed( 2 ) );
			bar.setAttribute( 'width', width.toFixed( 2 ) );
			x += width;
		} );
		find( 'counts' ).replaceChildren( ...counts.map( ( count, index ) => {
			const item = document.createElement( 'li' );
			item.append( verdictMark( index ), ` ${ count.toLocaleString( words.language ) }` );
			return item;
		} ) );
	}

	function drawRow( row ) {
		const item = find( 'row-template' ).content.cloneNode( true ).firstElementChild;
		const verdict = verdictOf( row );
		item.className = CLASSES[ verdict ];
		item.querySelectorAll( '.thumbs > span' ).forEach( ( box, index ) => {
			const source = pictureOf( row, index ? 'shown-small' : 'seen-small' );
			if ( source ) {
				const image = document.createElement( 'img' );
				Object.assign( image, { src: source, alt: '' } );
				box.replaceChildren( image );
			}
		} );
		const link = item.querySelector( 'h2 a' );
		link.textContent = plain( row[ URL_ ] );
		link.href = `#${ keyOf( row ) }`;
		find( 'verdict', item ).append( verdictMark( verdict ), ...faultList( row[ FAULTS ] ) );
		const mark = markOf( row );
		const notes = [ mark.verdict || row[ REVIEW ] >= 0 ? words.reviewed : '', mark.recrawl ? words.recrawl : words.repairs[ row[ REPAIR ] ] ];
		notes.filter( Boolean ).forEach( ( text ) => find( 'verdict', item ).append( element( 'span', '', text ) ) );
		find( 'why', item ).textContent = plain( strings[ row[ REASON ] ] );
		find( 'facts', item ).append( ...factsOf( row ) );
		item.querySelector( 'strong' ).textContent = shareOf( row[ SCORE ] );
		return item;
	}

	function factsOf( row ) {
		const level = strings[ row[ LEVEL ] ];
		return [ words.levels[ level ] || level, words.captured.replace( '{}', moment( row[ CAPTURED ] ) ),
			words.checked.replace( '{}', moment( row[ CHECKED ] ) ) ].map( ( text ) => element( 'span', '', text ) );
	}

	function drawList() {
		const pages = Math.max( Math.ceil( filtered.length / PAGE_SIZE ), 1 );
		page = Math.max( 0, Math.min( page, pages - 1 ) );
		const from = page * PAGE_SIZE;
		drawTotals();
		find( 'rows' ).replaceChildren( ...filtered.slice( from, from + PAGE_SIZE ).map( drawRow ) );
		find( 'none' ).hidden = filtered.length > 0;
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

	/** Return the page's URL if it is safe to link to, else ''. */
	function liveUrl( row ) {
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

	function drawPictures( row ) {
		const viewer = find( 'look' );
		for ( const kind of [ 'seen', 'shown', 'heat' ] ) {
			const image = viewer.querySelector( `.${ kind } img` );
			const source = pictureOf( row, kind );
			image.hidden = !source;
			image.nextElementSibling.hidden = Boolean( source );
			if ( source ) {
				image.src = source;
			} else {
				image.removeAttribute( 'src' );
			}
		}
		if ( viewer.refresh ) {
			viewer.refresh();
		}
	}

	function drawMark( row ) {
		const mark = markOf( row );
		const form = find( 'judging' );
		const verdict = verdictOf( row );
		const isJudged = mark.verdict || row[ REVIEW ] >= 0 && mark.verdict !== '';
		form.querySelectorAll( 'button[data-act]' ).forEach( ( button ) => {
			const pressed = { good: isJudged && verdict === 2, bad: isJudged && verdict === 0, recrawl: Boolean( mark.recrawl ) };
			if ( button.dataset.act !== 'clear' ) {
				button.setAttribute( 'aria-pressed', String( Boolean( pressed[ button.dataset.act ] ) ) );
			}
		} );
		form.elements.note.value = mark.note !== undefined ? mark.note : strings[ row[ NOTE ] ];
		const review = mark.verdict ? words.marked.replace( '{}', words.verdicts[ verdict ] ) :
			row[ REVIEW ] >= 0 ? words.reviewedBy.replace( '{}', words.verdicts[ row[ REVIEW ] ] )
				.replace( '{}', strings[ row[ BY ] ] || words.unnamedReviewer ) : words.notReviewed;
		find( 'standing' ).textContent = [ review, mark.recrawl ? words.recrawl : words.repairs[ row[ REPAIR ] ] ].join( ' ' );
		find( 'one-verdict' ).replaceChildren( verdictMark( verdict ), ...faultList( row[ FAULTS ] ), ...factsOf( row ) );
	}

	function drawOne( row ) {
		current = filtered.indexOf( row );
		find( 'one-url' ).textContent = plain( row[ URL_ ] );
		find( 'one-why' ).textContent = plain( strings[ row[ REASON ] ] );
		drawScores( row );
		drawMark( row );
		drawPictures( row );
		const neighbour = ( step ) => current >= 0 && filtered[ current + step ] ? `#${ keyOf( filtered[ current + step ] ) }` : '';
		linkTo( find( 'before' ), neighbour( -1 ) );
		linkTo( find( 'behind' ), neighbour( 1 ) );
		linkTo( find( 'live' ), liveUrl( row ) );
		const stamp = moment( row[ CAPTURED ] ).replace( /\D/g, '' );
		linkTo( find( 'copy' ), words.origin && liveUrl( row ) && `${ words.origin }/page/${ stamp }/${ row[ URL_ ] }` );
		linkTo( find( 'result' ), words.origin && `${ words.origin }/quality/${ keyOf( row ) }` );
		const lost = row[ LOST ] || [];
		find( 'lost' ).hidden = !lost.length;
		find( 'lost' ).querySelector( 'tbody' ).replaceChildren( ...lost.map( ( [ url, why ] ) => {
			const line = document.createElement( 'tr' );
			const cell = element( 'td', 'url', plain( url ) );
			cell.dir = 'ltr';
			line.append( cell, element( 'td', '', plain( why ) ) );
			return line;
		} ) );
		announce( `${ words.verdicts[ verdictOf( row ) ] }. ${ plain( row[ URL_ ] ) }` );
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
			const last = find( 'rows' ).children[ current - page * PAGE_SIZE ];
			if ( current >= 0 && last ) {
				last.querySelector( 'a' ).focus();
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
		stored( storeName, JSON.stringify( [ ...marks ] ) );
		drawMark( row );
		drawDownloads();
		announce( find( 'standing' ).textContent );
		if ( form.elements.onward.checked && act !== 'recrawl' && !find( 'behind' ).hidden ) {
			find( 'behind' ).click();
		}
	}

	function drawDownloads() {
		document.querySelectorAll( '[data-count]' ).forEach( ( counter ) => {
			const count = [ ...marks.values() ].filter( ( each ) => counter.dataset.count === 'marks' || each.recrawl ).length;
			counter.textContent = String( count );
			counter.closest( 'button' ).disabled = !count;
		} );
	}

	function download( name, type, text ) {
		const link = document.createElement( 'a' );
		link.href = window.URL.createObjectURL( new Blob( [ text ], { type } ) );
		link.download = name;
		document.body.append( link );
		link.click();
		link.remove();
	}

	function downloadMarks() {
		const by = find( 'by' ).value.trim().slice( 0, 100 );
		const reviews = [ ...marks ].map( ( [ key, each ] ) => {
			const [ pageId, level ] = key.split( '/' );
			return {
				page_id: pageId, level, verdict: each.verdict === undefined ? null : each.verdict,
				recrawl: Boolean( each.recrawl ), note: each.note || '', at: each.at
			};
		} );
		download( 'weboid-marks.json', 'application/json', JSON.stringify( { weboid_marks: 1, report: words.report, by, marks: reviews }, null, 1 ) );
		isSaved = true;
	}

	function downloadUrls() {
		const urls = [ ...marks ].filter( ( [ key, each ] ) => each.recrawl && byKey.has( key ) )
			.map( ( [ key ] ) => byKey.get( key )[ URL_ ] ).filter( ( url ) => !/[\r\n]/.test( url ) );
		download( 'weboid-recrawl.txt', 'text/plain', [ ...new Set( urls ) ].join( '\n' ) + '\n' );
	}

	function start() {
		find( 'sift' ).addEventListener( 'submit', ( event ) => {
			event.preventDefault();
			current = -1;
			applyFilters();
			drawList();
			announce( words.resultCount.replace( '{}', filtered.length.toLocaleString( words.language ) ) );
		} );
		const turnPage = ( step ) => {
			page += step;
			current = -1;
			drawList();
			window.scrollTo( 0, 0 );
			announce( find( 'place' ).textContent );
		};
		find( 'earlier' ).addEventListener( 'click', () => turnPage( -1 ) );
		find( 'later' ).addEventListener( 'click', () => turnPage( 1 ) );
		find( 'judging' ).addEventListener( 'submit', ( event ) => event.preventDefault() );
		document.querySelectorAll( '[data-act]' ).forEach( ( button ) =>
			button.addEventListener( 'click', () => mark( button.dataset.act ) ) );
		find( 'give-marks' ).addEventListener( 'click', downloadMarks );
		find( 'give-urls' ).addEventListener( 'click', downloadUrls );
		window.addEventListener( 'hashchange', show );
		window.addEventListener( 'beforeunload', ( event ) => {
			if ( !isSaved ) {
				event.preventDefault();
			}
		} );
		// Pictures are at the end of the file and may not be loaded yet.
		document.addEventListener( 'DOMContentLoaded', show );
		drawDownloads();
		show();
	}

	start();
}() );
