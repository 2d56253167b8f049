"""The importer's rules by family; importing this registers all of them."""

from stepwell.dialects.support.exports import load_modules

load_modules(__name__)
