// Package browser contains the tests of package inspect that need a browser: they control Chromium
// through its debugging protocol. It is a separate module, so that programs that use the library do
// not depend on the browser driver.
//
//	cd dataflow/inspect/internal/browser; go test -artifacts ./...
//
// The tests are skipped if there is no browser, unless MILLRACE_BROWSER is "required". It may also
// be the path of a browser. With -artifacts, the tests store screenshots.
package browser
