/* lock_url.c: what may be secret in a lock's URL. jobschedctl has it from here, too. No I/O.
 * Locks: none. */
#include "lock_url.h"

#include <stdio.h>
#include <string.h>

/* Whether these can be nothing but hosts, each with a port or not. Where '@host' was forgotten the
 * password stands in the place of the port. */
static int are_hosts(const char *text)
{
    const char *end = text + strcspn(text, "/?");

    while (text < end) {
        const char *next = text + strcspn(text, ",/?");
        const char *bracket = *text == '[' ? memchr(text, ']', (size_t)(next - text)) : NULL;
        const char *from = bracket == NULL ? text : bracket;
        const char *colon = memchr(from, ':', (size_t)(next - from));

        if (colon != NULL &&
            (next - colon > 6 || colon + 1 + strspn(colon + 1, "0123456789") < next)) {
            return 0;
        }
        text = next + (*next == ',');
    }
    return 1;
}

static int hex_digit(char character)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *digit = character == '\0' ? NULL : strchr(digits, character);

    return digit == NULL ? -1 : (int)(digit - digits) % 16;
}

/* Whether the word stands here, also with bytes as %XX, which client libraries decode. */
static int stands_here(const char *text, const char *word)
{
    for (; *word != '\0'; word++, text++) {
        int high = *text == '%' ? hex_digit(text[1]) : -1;
        int low = high < 0 ? -1 : hex_digit(text[2]);

        if (low >= 0 ? high * 16 + low != *word : *text != *word) {
            return 0;
        }
        text += low >= 0 ? 2 : 0;
    }
    return 1;
}

/* Files have no passwords, and their names may be anything. */
static int is_file(const char *url)
{
    return strncmp(url, "sqlite:", 7) == 0 || strncmp(url, "single:", 7) == 0;
}

/* Behind a ':' and before '@', or where '@' is missing in the place of the port; or what a parameter
 * tells. */
int lock_url_may_hold_password(const char *url)
{
    /* All that libpq keeps from lists of processes; "sslpassword" ends like the first. */
    static const char *const secrets[] = {
        "password=", "oauth_client_secret=", "scram_client_key=", "scram_server_key="};
    const char *user = strstr(url, "://");
    const char *host = strrchr(url, '@');

    if (is_file(url)) {
        return 0;
    }
    for (const char *at = url; *at != '\0'; at++) {
        for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
            if (stands_here(at, secrets[i])) {
                return 1;
            }
        }
    }
    if (host == NULL) {
        return user != NULL && !are_hosts(user + 3);
    }
    user = user != NULL ? user + 3 : url;
    return host > user && memchr(user, ':', (size_t)(host - user)) != NULL;
}

void lock_url_redact(const char *url, char *text, unsigned long bytes)
{
    size_t scheme = strcspn(url, ":?@"); /* where there is none, nothing is shown as one */
    const char *rest = url + scheme;
    const char *at = strrchr(rest, '@');
    const char *from = at == NULL ? rest : at + 1;

    if (at == NULL && !is_file(url) && !(strncmp(rest, "://", 3) == 0 && are_hosts(rest + 3))) {
        (void)snprintf(text, bytes, "%.*s:***", (int)scheme, url);
        return;
    }
    /* The last '@', as a password may hold others; parameters may be passwords too. */
    (void)snprintf(text, bytes, "%.*s%s%.*s%s", (int)scheme, url, at == NULL ? "" : "://***@",
                   (int)strcspn(from, "?"), from, strchr(from, '?') == NULL ? "" : "?***");
}
