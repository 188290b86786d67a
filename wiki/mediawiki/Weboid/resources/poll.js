/*
 * Marks that change while a reader looks at the page: queued links become archived ones without a reload.
 *
 * The wiki's own page is asked for again, as often as a reader would; nobody else is asked. Without this
 * script the next view shows the same. In the JavaScript that MediaWiki 1.39 takes.
 */
( function () {
	'use strict';

	var MOST_LOOKS = 15; // after the first
	var NEW_LOOKS = 6; // while nothing is queued yet
	var FIRST_MS = 400;
	var GROWTH = 1.4; // of the pause, from look to look
	var LONGEST_MS = 30000;
	var ATTRIBUTES = [ 'data-originalurl', 'data-versionurl', 'data-versiondate' ];
	var looks = 0;

	function linksIn( page ) {
		var found = {};
		Array.prototype.forEach.call( page.querySelectorAll( '#mw-content-text a[href]' ), function ( link ) {
			var href = link.getAttribute( 'href' );
			if ( !link.closest( '.weboid-cached' ) ) {
				found[ href ] = found[ href ] || [];
				found[ href ].push( link );
			}
		} );
		return found;
	}

	function markOf( link ) {
		var next = link.nextElementSibling;
		return next && next.classList.contains( 'weboid-cached' ) ? next : null;
	}

	function isOurs( name ) {
		return name.indexOf( 'weboid-' ) === 0;
	}

	function redraw( link, fresh ) {
		var old = markOf( link );
		var mark = markOf( fresh );
		Array.prototype.filter.call( link.classList, isOurs ).forEach( function ( name ) {
			link.classList.remove( name );
		} );
		Array.prototype.filter.call( fresh.classList, isOurs ).forEach( function ( name ) {
			link.classList.add( name );
		} );
		ATTRIBUTES.forEach( function ( name ) {
			if ( fresh.hasAttribute( name ) ) {
				link.setAttribute( name, fresh.getAttribute( name ) );
			} else {
				link.removeAttribute( name );
			}
		} );
		if ( old && mark && old.outerHTML === mark.outerHTML ) {
			return; // a reader may have the focus there
		}
		if ( old ) {
			old.parentNode.removeChild( old );
		}
		if ( mark ) {
			link.parentNode.insertBefore( document.importNode( mark, true ), link.nextSibling );
		}
	}

	function redrawAll( page ) {
		var here = linksIn( document );
		var there = linksIn( page );
		Object.keys( there ).forEach( function ( href ) {
			there[ href ].forEach( function ( fresh, place ) {
				var link = here[ href ] && here[ href ][ place ];
				if ( link && fresh.classList.contains( 'weboid-link' ) ) {
					redraw( link, fresh );
				}
			} );
		} );
	}

	function again() {
		var isQueued = document.querySelector( '.weboid-queued' );
		if ( looks < ( isQueued ? MOST_LOOKS : NEW_LOOKS ) ) {
			setTimeout( onceVisible, Math.min( FIRST_MS * Math.pow( GROWTH, looks ), LONGEST_MS ) );
		}
	}

	function onceVisible() {
		if ( document.hidden ) {
			document.addEventListener( 'visibilitychange', onceVisible, { once: true } );
		} else {
			look();
		}
	}

	function look() {
		looks++;
		fetch( location.pathname + location.search, { credentials: 'same-origin', cache: 'no-cache' } )
			.then( function ( response ) {
				return response.ok ? response.text() : Promise.reject( response.status );
			} )
			.then( function ( text ) {
				redrawAll( new DOMParser().parseFromString( text, 'text/html' ) );
				again();
			} )
			.catch( again );
	}

	if ( window.fetch ) {
		again();
	}
}() );
