// Package web searches the web and fetches pages for the web tools.
//
// # Who answers
//
// Search and Extract follow one order: the capability's own setting
// (Config.SearchBackend, Config.ExtractBackend), then Config.Backend, then the
// first of tavily, exa, parallel, firecrawl, searxng and brave-free that the
// environment has a key or an address for and that can do what is asked. A
// backend that is named but unknown, without its key, or unable to do it is an
// error, never a reason to take another one. Without any, Search says what to
// set and Extract fetches the pages itself ("local").
//
// # What is never reached
//
// Pages are fetched over connections whose resolved address was checked as it
// was dialled, on every redirect anew, so that no name, notation or second DNS
// answer leads into a private network; a proxy of the environment is not used
// for them. Config.AllowPrivate opens private networks, and nothing opens the
// metadata services of clouds. The blocklist holds for every backend, every
// redirect and every search result; a list that cannot be read blocks
// everything.
//
// A page that somebody else fetches is checked before it is asked for, as well
// as can be done from here: a service with an address of its own, which may
// stand in the user's network, gets no name that cannot be resolved here.
//
// The addresses of services come from the user: they may be private, are never
// redirected, and are the only places a key is sent to.
package web
