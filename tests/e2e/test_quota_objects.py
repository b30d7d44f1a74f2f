"""What the people of a namespace see of its quotas, through the API server and with the rights that they have."""

import json

import pytest

from tests.e2e.eventually import eventually
from tests.e2e.quota_fixtures import create
from tests.e2e.quota_site import QuotaSite
