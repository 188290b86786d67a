/*
 * Results of checks, looked at with one hand: a slider between capture and playback, and keys.
 *
 * The pages work without this script: it hides nothing, and each key presses a button or follows a link
 * that is there for everyone. The report that is one file has the same script inside.
 */
( function () {
	'use strict';

	const KEYS_OFF = 'weboid-keys-off';
	// What the button of a mode leads to when it is pressed in that mode.
	const AGAIN = { slider: 'side', heat: 'slider', blink: 'blink' };

	document.documentElement.classList.add( 'has-script' );

	/** What the browser keeps between pages; nothing where it may not. */
	function kept( name, value ) {
		try {
			if ( value !== undefined ) {
				localStorage.setItem( name, value );
			}
			return localStorage.getItem( name ) || '';
		} catch ( error ) {
			return '';
		}
	}

	/** Tell it to who cannot see what changed; the same twice is told twice. */
	function say( text ) {
		const place = document.querySelector( '[data-says]' );
		if ( place ) {
			place.textContent = place.textContent === text ? text + '\u00a0' : text;
		}
	}

	/* ---- capture and playback ---- */

	function startLook( look ) {
		const panes = look.querySelector( '[data-panes]' );
		const range = look.querySelector( '[data-divide]' );
		const has = ( kind ) => Boolean( look.querySelector( `.${ kind } img[src]` ) );
		const buttons = [ ...look.querySelectorAll( 'button[data-mode]' ) ];

		function divide( at ) {
			const value = Math.max( 0, Math.min( 100, Math.round( at ) ) );
			panes.style.setProperty( '--at', `${ value }%` );
			range.value = value;
			range.setAttribute( 'aria-valuetext', range.dataset.text.replace( '{}', String( value ) ) );
		}

		/** The mode, or what can be shown in its place. */
		function possible( mode ) {
			const isPair = has( 'seen' ) && has( 'shown' );
			if ( mode === 'heat' ? has( 'heat' ) : mode === 'side' || isPair ) {
				return mode;
			}
			return 'side';
		}

		function turn( mode, isTold ) {
			const now = possible( mode );
			if ( now === 'blink' && look.dataset.mode === 'blink' ) {
				look.dataset.front = look.dataset.front === 'seen' ? 'shown' : 'seen';
			} else {
				look.dataset.front = 'seen';
			}
			look.dataset.mode = now;
			range.closest( '.divide' ).hidden = now !== 'slider';
			for ( const button of buttons ) {
				button.setAttribute( 'aria-pressed', String( button.dataset.mode === now ) );
				button.disabled = possible( button.dataset.mode ) !== button.dataset.mode;
			}
			if ( isTold ) {
				const front = look.querySelector( `.${ look.dataset.front } figcaption` ).textContent;
				const pressed = buttons.find( ( each ) => each.dataset.mode === now );
				say( now === 'blink' ? front : pressed.dataset.name );
				kept( 'weboid-look', now );
			}
		}

		for ( const button of buttons ) {
			button.addEventListener( 'click', () => {
				const isAgain = button.dataset.mode === look.dataset.mode;
				turn( isAgain && AGAIN[ look.dataset.mode ] || button.dataset.mode, true );
			} );
		}
		range.addEventListener( 'input', () => divide( Number( range.value ) ) );

		function follow( event ) {
			const box = panes.getBoundingClientRect();
			divide( ( event.clientX - box.left ) / box.width * 100 );
		}
		panes.addEventListener( 'pointerdown', ( event ) => {
			if ( look.dataset.mode !== 'slider' || event.button !== 0 ) {
				return;
			}
			// A finger that goes up or down scrolls: the browser then cancels the pointer.
			panes.setPointerCapture( event.pointerId );
			event.preventDefault();
			range.focus( { preventScroll: true } ); // the arrow keys go on from here
			follow( event );
		} );
		panes.addEventListener( 'pointermove', ( event ) => {
			if ( panes.hasPointerCapture( event.pointerId ) ) {
				follow( event );
			}
		} );
		/** As it was left for the result before, as far as this one has the pictures. */
		look.refresh = () => {
			turn( kept( 'weboid-look' ) || 'slider', false );
			divide( 50 );
		};
		look.refresh();
	}

	/* ---- keys ---- */

	function isTyping( target ) {
		return target.isContentEditable ||
			target.matches( 'select, textarea, input:not([type="range"]):not([type="checkbox"]):not([type="radio"])' );
	}

	/** The next row of a list, or the first; its link gets the focus. */
	function stepRows( way ) {
		const rows = [ ...document.querySelectorAll( '[data-rows] a[data-row]' ) ];
		const now = rows.findIndex( ( row ) => row.closest( 'li' ).contains( document.activeElement ) );
		const row = rows[ now + way ];
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
		if ( kept( KEYS_OFF ) && event.key !== '?' ) {
			return;
		}
		const named = CSS.escape( event.key );
		const found = [ ...document.querySelectorAll( `[data-key~="${ named }"]` ) ]
			.find( ( each ) => each.getClientRects().length > 0 && !each.disabled );
		if ( found ) {
			event.preventDefault();
			found.click();
		} else if ( event.key === 'j' || event.key === 'k' ) {
			if ( stepRows( event.key === 'j' ? 1 : -1 ) ) {
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
		box.checked = !kept( KEYS_OFF );
		box.addEventListener( 'change', () => kept( KEYS_OFF, box.checked ? '' : '1' ) );
		for ( const button of document.querySelectorAll( '[data-opens-keys]' ) ) {
			button.addEventListener( 'click', () => panel.showModal() );
		}
	}

	/* ---- marks, without leaving the page ---- */

	function startMarks( form ) {
		const fields = form.querySelectorAll( '[data-kept]' );
		for ( const field of fields ) {
			const name = `weboid-${ field.name }`;
			if ( field.type === 'checkbox' ) {
				field.checked = Boolean( kept( name ) );
				field.addEventListener( 'change', () => kept( name, field.checked ? '1' : '' ) );
			} else {
				field.value = field.value || kept( name );
				field.addEventListener( 'change', () => kept( name, field.value ) );
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
				.then( ( answer ) => {
					if ( !answer.ok ) {
						throw new Error( String( answer.status ) );
					}
					return answer.json();
				} )
				.then( ( told ) => {
					delete form.dataset.sending;
					for ( const each of form.querySelectorAll( 'button[name="act"]' ) ) {
						if ( each.hasAttribute( 'aria-pressed' ) ) {
							each.setAttribute( 'aria-pressed', String( told.pressed.includes( each.value ) ) );
						}
					}
					form.querySelector( '[data-standing]' ).textContent = told.standing;
					say( told.said );
					const next = document.querySelector( 'a[rel="next"][data-step]' );
					if ( form.elements.onward && form.elements.onward.checked && told.isJudged && next ) {
						next.click();
					}
				} )
				// The page that the form itself leads to says what is wrong.
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
		document.querySelectorAll( '[data-look]' ).forEach( startLook );
		document.querySelectorAll( 'form[data-marks]' ).forEach( startMarks );
		const done = document.querySelector( '[data-done]' );
		if ( done ) {
			say( done.textContent );
		}
	}

	window.weboidQuality = { say, kept };
	if ( document.readyState === 'loading' ) {
		document.addEventListener( 'DOMContentLoaded', start );
	} else {
		start();
	}
}() );
