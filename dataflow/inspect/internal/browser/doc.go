// Package browser has the tests of package inspect that need a browser: Chromium, driven by its
// debugging protocol. It is a module of its own, so that programs that use the library do not get
// what drives a browser.
//
//	cd dataflow/inspect/internal/browser; go test -artifacts ./...
//
// The tests are skipped where there is no browser, unless MILLRACE_BROWSER is "required"; it may be
// the path of one as well. With -artifacts there are screenshots behind.
package browser
