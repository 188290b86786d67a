/*
 * Pages of playback checks: comparison of capture and replay, keyboard shortcuts, reviews.
 *
 * The pages work without this script: each key presses a button or follows a link that is on the page. The
 * report in a single file contains this script, too.
 */
( function () {
	'use strict';

	const KEYS_OFF = 'weboid-keys-off';
	// Next mode when the button of the current mode is pressed.
	const NEXT_MODE = { slider: 'side', heat: 'slider', blink: 'blink' };

	document.documentElement.classList.add( 'has-script' );

	/** Set and return a value in local storage; '' if it is not available. */
	function stored( name, value ) {
		try {
			if ( value !== undefined ) {
				localStorage.setItem( name, value );
			}
			return localStorage.getItem( name ) || '';
		} catch ( error ) {
			return '';
		}
	}

	/** Announce a change to screen readers, also if the text is the same as before. */
	function announce( text ) {
		const region = document.querySelector( '[data-says]' );
		if ( region ) {
			region.textContent = region.textContent === text ? text + '\u00a0' : text;
		}
	}

	/* ---- comparison of capture and replay ---- */

	function startComparison( viewer ) {
		const panes = viewer.querySelector( '[data-panes]' );
		const range = viewer.querySelector( '[data-divide]' );
		const has = ( kind ) => Boolean( viewer.querySelector( `.${ kind } img[src]` ) );
		const buttons = [ ...viewer.querySelectorAll( 'button[data-mode]' ) ];

		function divide( at ) {
			const value = Math.max( 0, Math.min( 100, Math.round( at ) ) );
			panes.style.setProperty( '--at', `${ value }%` );
			range.value = value;
			range.setAttribute( 'aria-valuetext', range.dataset.text.replace( '{}', String( value ) ) );
		}

		/** Return the mode if its pictures exist, else the mode "side". */
		function available( mode ) {
			const isPair = has( 'seen' ) && has( 'shown' );
			if ( mode === 'heat' ? has( 'heat' ) : mode === 'side' || isPair ) {
				return mode;
			}
			return 'side';
		}

		function setMode( mode, isAnnounced ) {
			const now = available( mode );
			if ( now === 'blink' && viewer.dataset.mode === 'blink' ) {
				viewer.dataset.front = viewer.dataset.front === 'seen' ? 'shown' : 'seen';
			} else {
				viewer.dataset.front = 'seen';
			}
			viewer.dataset.mode = now;
			range.closest( '.divide' ).hidden = now !== 'slider';
			for ( const button of buttons ) {
				button.setAttribute( 'aria-pressed', String( button.dataset.mode === now ) );
				button.disabled = available( button.dataset.mode ) !== button.dataset.mode;
			}
			if ( isAnnounced ) {
				const front = viewer.querySelector( `.${ viewer.dataset.front } figcaption` ).textContent;
				const pressed = buttons.find( ( each ) => each.dataset.mode === now );
				announce( now === 'blink' ? front : pressed.dataset.name );
				stored( 'weboid-look', now );
			}
		}

		for ( const button of buttons ) {
			button.addEventListener( 'click', () => {
				const isCurrent = button.dataset.mode === viewer.dataset.mode;
				setMode( isCurrent && NEXT_MODE[ viewer.dataset.mode ] || button.dataset.mode, true );
			} );
		}
		range.addEventListener( 'input', () => divide( Number( range.value ) ) );

		function follow( event ) {
			const box = panes.getBoundingClientRect();
			divide( ( event.clientX - box.left ) / box.width * 100 );
		}
		panes.addEventListener( 'pointerdown', ( event ) => {
			if ( viewer.dataset.mode !== 'slider' || event.button !== 0 ) {
				return;
			}
			// On touch screens a vertical move scrolls, and the browser cancels the pointer.
			panes.setPointerCapture( event.pointerId );
			event.preventDefault();
			range.focus( { preventScroll: true } ); // for the arrow keys
			follow( event );
		} );
		panes.addEventListener( 'pointermove', ( event ) => {
			if ( panes.hasPointerCapture( event.pointerId ) ) {
				follow( event );
			}
		} );
		/** Set the mode that was used last. */
		viewer.refresh = () => {
			setMode( stored( 'weboid-look' ) || 'slider', false );
			divide( 50 );
		};
		viewer.refresh();
	}

	/* ---- keys ---- */

	function isTyping( target ) {
		return target.isContentEditable ||
			target.matches( 'select, textarea, input:not([type="range"]):not([type="checkbox"]):not([type="radio"])' );
	}

	/** Focus the next or previous row of a list; return whether there is a list. */
	function focusRow( step ) {
		const rows = [ ...document.querySelectorAll( '[data-rows] a[data-row]' ) ];
		const now = rows.findIndex( ( row ) => row.closest( 'li' ).contains( document.activeElement ) );
		const row = rows[ now + step ];
		if ( row ) {
			row.focus();
			row.closest( 'li' ).scrollIntoView( { block: 'nearest' } );
		}
		return rows.length > 0;
	}

	function onKey( event ) {
		if ( event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || isTyping( event.target ) ) {
			return;
		}
		if ( document.querySelector( 'dialog[open]' ) ) {
			return;
		}
		if ( event.key.startsWith( 'Arrow' ) && event.target.matches( 'input' ) ) {
			return;
		}
		if ( stored( KEYS_OFF ) && event.key !== '?' ) {
			return;
		}
		const named = CSS.escape( event.key );
		const target = [ ...document.querySelectorAll( `[data-key~="${ named }"]` ) ]
			.find( ( each ) => each.getClientRects().length > 0 && !each.disabled );
		if ( target ) {
			event.preventDefault();
			target.click();
		} else if ( event.key === 'j' || event.key === 'k' ) {
			if ( focusRow( event.key === 'j' ? 1 : -1 ) ) {
				event.preventDefault();
			}
		}
	}

	function startKeys() {
		document.addEventListener( 'keydown', onKey );
		const panel = document.querySelector( 'dialog[data-keys]' );
		const box = panel && panel.querySelector( 'input[type="checkbox"]' );
		if ( !panel ) {
			return;
		}
		box.checked = !stored( KEYS_OFF );
		box.addEventListener( 'change', () => stored( KEYS_OFF, box.checked ? '' : '1' ) );
		for ( const button of document.querySelectorAll( '[data-opens-keys]' ) ) {
			button.addEventListener( 'click', () => panel.showModal() );
		}
	}

	/* ---- reviews, without leaving the page ---- */

	function startReview( form ) {
		const fields = form.querySelectorAll( '[data-kept]' );
		for ( const field of fields ) {
			const name = `weboid-${ field.name }`;
			if ( field.type === 'checkbox' ) {
				field.checked = Boolean( stored( name ) );
				field.addEventListener( 'change', () => stored( name, field.checked ? '1' : '' ) );
			} else {
				field.value = field.value || stored( name );
				field.addEventListener( 'change', () => stored( name, field.value ) );
			}
		}
		form.addEventListener( 'submit', ( event ) => {
			const button = event.submitter;
			if ( !button || !button.value || form.dataset.sending ) {
				return;
			}
			event.preventDefault();
			form.dataset.sending = '1';
			const body = new URLSearchParams( new FormData( form ) );
			body.set( 'act', button.value );
			fetch( form.action, { method: 'POST', body, headers: { Accept: 'application/json' } } )
				.then( ( response ) => {
					if ( !response.ok ) {
						throw new Error( String( response.status ) );
					}
					return response.json();
				} )
				.then( ( result ) => {
					delete form.dataset.sending;
					for ( const each of form.querySelectorAll( 'button[name="act"]' ) ) {
						if ( each.hasAttribute( 'aria-pressed' ) ) {
							each.setAttribute( 'aria-pressed', String( result.pressed.includes( each.value ) ) );
						}
					}
					form.querySelector( '[data-standing]' ).textContent = result.standing;
					announce( result.said );
					const next = document.querySelector( 'a[rel="next"][data-step]' );
					if ( form.elements.onward && form.elements.onward.checked && result.isJudged && next ) {
						next.click();
					}
				} )
				// Submit the form without this script: the resulting page shows the error.
				.catch( () => HTMLFormElement.prototype.submit.call( withAct( form, button.value ) ) );
		} );
	}

	function withAct( form, value ) {
		const field = document.createElement( 'input' );
		Object.assign( field, { type: 'hidden', name: 'act', value } );
		form.append( field );
		return form;
	}

	function start() {
		startKeys();
		document.querySelectorAll( '[data-look]' ).forEach( startComparison );
		document.querySelectorAll( 'form[data-marks]' ).forEach( startReview );
		const done = document.querySelector( '[data-done]' );
		if ( done ) {
			announce( done.textContent );
		}
	}

	window.weboidQuality = { announce, stored };
	if ( document.readyState === 'loading' ) {
		document.addEventListener( 'DOMContentLoaded', start );
	} else {
		start();
	}
}() );
