/*
 * Updates marks on an open page while links are queued.
 *
 * The page is requested again from the wiki, at growing intervals; no other server is contacted. Without
 * this script the next view shows the same. Written in ECMAScript 5 for MediaWiki 1.39.
 */
( function () {
	'use strict';

	var MAX_POLLS = 15; // after the first view
	var MAX_POLLS_IF_NEW = 6; // while no link is queued yet
	var FIRST_DELAY_MS = 400;
	var DELAY_FACTOR = 1.4;
	var MAX_DELAY_MS = 30000;
	var ATTRIBUTES = [ 'data-originalurl', 'data-versionurl', 'data-versiondate' ];
	var polls = 0;

	function linksByHref( page ) {
		var links = {};
		Array.prototype.forEach.call( page.querySelectorAll( '#mw-content-text a[href]' ), function ( link ) {
			var href = link.getAttribute( 'href' );
			if ( !link.closest( '.weboid-cached' ) ) {
				links[ href ] = links[ href ] || [];
				links[ href ].push( link );
			}
		} );
		return links;
	}

	function cachedLinkAfter( link ) {
		var next = link.nextElementSibling;
		return next && next.classList.contains( 'weboid-cached' ) ? next : null;
	}

	function isWeboidClass( name ) {
		return name.indexOf( 'weboid-' ) === 0;
	}

	function updateMarks( link, newLink ) {
		var cached = cachedLinkAfter( link );
		var newCached = cachedLinkAfter( newLink );
		Array.prototype.filter.call( link.classList, isWeboidClass ).forEach( function ( name ) {
			link.classList.remove( name );
		} );
		Array.prototype.filter.call( newLink.classList, isWeboidClass ).forEach( function ( name ) {
			link.classList.add( name );
		} );
		ATTRIBUTES.forEach( function ( name ) {
			if ( newLink.hasAttribute( name ) ) {
				link.setAttribute( name, newLink.getAttribute( name ) );
			} else {
				link.removeAttribute( name );
			}
		} );
		if ( cached && newCached && cached.outerHTML === newCached.outerHTML ) {
			return; // it may have the focus
		}
		if ( cached ) {
			cached.parentNode.removeChild( cached );
		}
		if ( newCached ) {
			link.parentNode.insertBefore( document.importNode( newCached, true ), link.nextSibling );
		}
	}

	function updateAll( newPage ) {
		var links = linksByHref( document );
		var newLinks = linksByHref( newPage );
		Object.keys( newLinks ).forEach( function ( href ) {
			newLinks[ href ].forEach( function ( newLink, index ) {
				var link = links[ href ] && links[ href ][ index ];
				if ( link && newLink.classList.contains( 'weboid-link' ) ) {
					updateMarks( link, newLink );
				}
			} );
		} );
	}

	function schedule() {
		var isQueued = document.querySelector( '.weboid-queued' );
		if ( polls < ( isQueued ? MAX_POLLS : MAX_POLLS_IF_NEW ) ) {
			setTimeout( pollWhenVisible, Math.min( FIRST_DELAY_MS * Math.pow( DELAY_FACTOR, polls ), MAX_DELAY_MS ) );
		}
	}

	function pollWhenVisible() {
		if ( document.hidden ) {
			document.addEventListener( 'visibilitychange', pollWhenVisible, { once: true } );
		} else {
			poll();
		}
	}

	function poll() {
		polls++;
		fetch( location.pathname + location.search, { credentials: 'same-origin', cache: 'no-cache' } )
			.then( function ( response ) {
				return response.ok ? response.text() : Promise.reject( response.status );
			} )
			.then( function ( text ) {
				updateAll( new DOMParser().parseFromString( text, 'text/html' ) );
				schedule();
			} )
			.catch( schedule );
	}

	if ( window.fetch ) {
		schedule();
	}
}() );
